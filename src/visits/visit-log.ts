// The log of visits: a line per visit and an entry per batch, atomic with the counts.

import { columnText } from '../events/row.js';
import type { Store } from '../redis/store.js';

export interface VisitLogOptions {
  readonly highWater: number;
  readonly onNotLogged: (visits: number) => void;
}

// Characters that ClickHouse's TabSeparated escapes.
const SPECIAL = /[\\\t\n\r\0]/;
const EACH_SPECIAL = /[\\\t\n\r\0]/g;
const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\0': '\\0',
};

function escaped(text: string): string {
  return SPECIAL.test(text) ? text.replace(EACH_SPECIAL, (c) => ESCAPES[c] as string) : text;
}

const PLAIN = /^[\w -]*$/;

function deviceOf(device: string | null): string {
  if (device === null || PLAIN.test(device)) return device ?? '';
  return escaped(columnText(device));
}

export function visitLine(profileId: string, handle: string, device: string | null): string {
  return `${profileId}\t${escaped(handle)}\t${deviceOf(device)}\n`;
}

export class VisitLog {
  constructor(
    private readonly store: Store,
    private readonly options: VisitLogOptions,
  ) {}

  /** @param address of the batch's node, on a cluster */
  args(
    lines: string,
    address: string | undefined,
  ): [stream: string, state: string, mark: number, lines: string] {
    const { visits } = this.store.keys;
    const stream = this.store.streamAt(address);
    return [visits.events(stream), visits.eventsState(stream), this.options.highWater, lines];
  }

  notLogged(visits: number): void {
    this.options.onNotLogged(visits);
  }
}

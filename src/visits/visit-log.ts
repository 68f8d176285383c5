// The log of visits: what a script appends to a stream in the step that counts. A visit is one line, and the lines of a
// batch are one entry; src/flush/ brings them to ClickHouse as they are, with the entry's id before them.
//
// A script reaches the stream of its own node. While the slot of that stream migrates, visits wait.

import { columnText } from '../events/row.js';
import type { Store } from '../redis/store.js';

export interface VisitLogOptions {
  /** Bytes of waiting visits in one stream from which on none is added. */
  readonly highWater: number;
  /** Called with the number of visits that were counted and not logged, since the stream is at its mark. */
  readonly onNotLogged: (visits: number) => void;
}

// Characters that stand for others in ClickHouse's TabSeparated, or have a meaning there.
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

/** A visit as a stream has it: profile, product and device, as ClickHouse's TabSeparated. */
export function visitLine(profileId: string, handle: string, device: string | null): string {
  return `${profileId}\t${escaped(handle)}\t${deviceOf(device)}\n`;
}

export class VisitLog {
  readonly #store: Store;
  readonly #options: VisitLogOptions;

  constructor(store: Store, options: VisitLogOptions) {
    this.#store = store;
    this.#options = options;
  }

  /** As lua/visits/countVisits.lua is given them. @param address of the node of a batch, on a cluster */
  args(
    lines: string,
    address: string | undefined,
  ): [stream: string, state: string, mark: number, lines: string] {
    const { visits } = this.#store.keys;
    const stream = this.#store.streamAt(address);
    return [visits.events(stream), visits.eventsState(stream), this.#options.highWater, lines];
  }

  notLogged(visits: number): void {
    this.#options.onNotLogged(visits);
  }
}

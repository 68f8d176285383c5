// The log of visits: what a script appends to a stream in the step that counts. A visit is one line, and the lines of a
// batch are one entry; src/flush/ brings them to ClickHouse as they are, with the entry's id before them.
//
// A script reaches the streams of its own node. So on one server a counted visit is logged; on a cluster it is, save
// while its slot or the stream's is on the move, or where the node has none of the streams' slots.

import { columnText } from '../events/row.js';
import { type Keys, VISIT_STREAMS, visitTag } from '../redis/keys.js';
import type { ScriptCall } from '../redis/script-call.js';
import type { Store } from '../redis/store.js';

/** Why visits that were counted are not in the log: the stream is at its mark, or it is not where they were counted. */
type NotLogged = 'full' | 'elsewhere';

export interface VisitLogOptions {
  /** Bytes of waiting visits in one stream from which on none is added. */
  readonly highWater: number;
  readonly onNotLogged: (why: NotLogged, visits: number) => void;
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
  readonly #store: Pick<Store, 'keys' | 'isCluster' | 'addressOf'>;
  readonly #options: VisitLogOptions;

  constructor(store: Pick<Store, 'keys' | 'isCluster' | 'addressOf'>, options: VisitLogOptions) {
    this.#store = store;
    this.#options = options;
  }

  /** The arguments that lua/visits.lua and lua/visit-once.lua end with. @param address of the node, on a cluster */
  args(
    lines: string,
    address: string | undefined,
  ): [stream: string, state: string, mark: number, lines: string] {
    const { visits }: Keys = this.#store.keys;
    const stream = this.#streamAt(address);
    return [visits.events(stream), visits.eventsState(stream), this.#options.highWater, lines];
  }

  /** @param address of the node of a batch, on a cluster */
  give(call: ScriptCall, lines: string, address: string | undefined): void {
    for (const arg of this.args(lines, address)) call.arg(arg);
  }

  /** @param visits as a script tells of them: below 0 where the stream is not at its node */
  notLogged(visits: number): void {
    this.#options.onNotLogged(visits < 0 ? 'elsewhere' : 'full', Math.abs(visits));
  }

  /** Where a node has none, one of another: the script then says that it is not there. */
  #streamAt(address: string | undefined): number {
    if (!this.#store.isCluster || address === undefined) return 0;
    for (let stream = 0; stream < VISIT_STREAMS; stream++)
      if (this.#store.addressOf(visitTag(stream)) === address) return stream;
    return 0;
  }
}

// The ledger: who is which profile and how often they looked at what, all of it through lua/visits.lua,
// one call per event-loop turn. It follows nothing: where an identity turns out to have another profile,
// it says so and whoever asked asks again there (src/identity/identities.ts).

import type { Batcher, BatchFormat } from '../redis/batcher.js';
import type { Keys } from '../redis/keys.js';
import { bucketOf } from '../redis/keys.js';
import { REMEMBERED_S } from '../redis/once.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

export type EntryKind = 'visit' | 'visitAndCount' | 'read' | 'reset' | 'resolve' | 'peek';

export interface Entry {
  readonly kind: EntryKind;
  /** `c:<customer>` or `s:<session>` */
  readonly name: string;
  /** The profile that the identity is believed to have. */
  readonly profileId: string;
  /** Whether that profile is the identity's own (same bucket: it is checked that no other one is named). */
  readonly own: boolean;
  /** Empty for `resolve` and `peek`. */
  readonly handle: string;
  /** visitAndCount: id of the operation under which it counts once, however often it is entered. */
  readonly operationId?: string | undefined;
}

/** The id of the profile to ask instead (nothing was done; empty: the identity has none), or the count where one was asked for. */
export type LedgerAnswer = string | number | undefined;

const VISIT_ONCE = loadScript('visit-once');

const CODES: Record<EntryKind, string> = {
  visit: 'v',
  visitAndCount: 'c',
  read: 'g',
  reset: 'd',
  resolve: 'r',
  peek: 'p',
};
const FOREIGN_CODES: Record<EntryKind, string> = {
  visit: 'V',
  visitAndCount: 'C',
  read: 'G',
  reset: 'D',
  resolve: 'R',
  peek: 'P',
};

export class Ledger {
  readonly #store: Store;
  readonly #batcher: Batcher<Entry, LedgerAnswer>;

  /** @param onBatch told of each batch: entries in it, milliseconds until Redis answered */
  constructor(store: Store, onBatch: (size: number, ms: number) => void) {
    this.#store = store;
    this.#batcher = store.batcher(ledgerFormat(store.keys), onBatch);
  }

  /** @throws ServiceError `unavailable`, `overloaded` */
  enter(entry: Entry): Promise<LedgerAnswer> {
    return entry.operationId === undefined
      ? this.#batcher.run(entry)
      : this.#visitOnce(entry, entry.operationId);
  }

  async close(): Promise<void> {
    await this.#batcher.close();
  }

  /** Rare enough to go alone; safe to repeat, so it needs no batch that is numbered. */
  async #visitOnce({ name, profileId, own, handle }: Entry, operationId: string): Promise<LedgerAnswer> {
    const { keys } = this.#store;
    const touched = [
      keys.names(profileId, own),
      keys.visits(profileId),
      keys.operation(profileId, operationId),
    ];
    const args = [name, profileId, handle, REMEMBERED_S];
    return (await this.#store.run(VISIT_ONCE, touched, args)) as LedgerAnswer;
  }
}

function ledgerFormat(keys: Keys): BatchFormat<Entry, LedgerAnswer> {
  return {
    script: loadScript('visits'),
    tag: (entry) => bucketOf(entry.profileId),
    mixesTags: true,
    writes: (entry) => entry.kind !== 'read' && entry.kind !== 'peek',
    encode(entries, call) {
      let packed = '';
      for (const { kind, name, profileId, own, handle } of entries) {
        call.key(keys.names(profileId, own));
        call.key(keys.visits(profileId));
        packed += `${(own ? CODES : FOREIGN_CODES)[kind]}${name}\n${profileId}\n${handle}\n`;
      }
      call.arg(packed);
    },
    decode(entries, reply) {
      const answers = new Array<LedgerAnswer | Error>(entries.length).fill(undefined);
      const list = reply as (number | string | Error)[];
      for (let i = 0; i < list.length; i += 2)
        answers[(list[i] as number) - 1] = list[i + 1] as string | number;
      return answers;
    },
  };
}

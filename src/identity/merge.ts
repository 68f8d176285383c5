// Merges one profile into another. The two live in different slots, so this is a journal, not a transaction:
//
//   whole ──take──▶ tombstone `!heir`, belongings aside ──give──▶ (added to the heir, on record) ──done──▶ tombstone `heir`
//
// Each step is one script and safe to repeat; whoever meets a `!` tombstone runs what is left. Counts are added
// once, because the heir records whose belongings it has, in the same script that adds them. The record stays,
// and travels along when the heir is merged itself, so that no late copy of a step can add them again.

import { ServiceError } from '../errors.js';
import { MAX_HOPS } from '../redis/at-profile.js';
import type { Keys } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const TAKE = loadScript('merge-take');
const GIVE = loadScript('merge-give');
const DONE = loadScript('merge-done');

/** What a merge moves, in the order of the scripts' keys. */
function belongings(keys: Keys, profileId: string): string[] {
  return [
    keys.visits(profileId),
    keys.items(profileId),
    keys.outbox(profileId),
    keys.profile(profileId),
    keys.merged(profileId),
  ];
}

/** The fields of `merged`, the last part. */
function mergedBefore(parts: readonly string[][]): string[] {
  return (parts.at(-1) ?? []).filter((_, i) => i % 2 === 0);
}

export class Merger {
  readonly #store: Store;
  readonly #record: (from: string, heir: string) => Promise<void>;

  /** @param record tells analysts of a merge; called at least once for each profile, before it is complete */
  constructor(store: Store, record: (from: string, heir: string) => Promise<void>) {
    this.#store = store;
    this.#record = record;
  }

  /** Merges, or finishes a merge that began earlier. @returns the profile that has everything now */
  async merge(from: string, into: string): Promise<string> {
    const { keys } = this.#store;
    const taken = (await this.#store.run(
      TAKE,
      [...belongings(keys, from), ...keys.journal(from)],
      [into],
    )) as [string, ...string[][]];
    const [tombstone, ...parts] = taken;
    if (!tombstone.startsWith('!')) return tombstone;
    const heir = tombstone.slice(1);
    const owner = await this.#give(from, heir, parts);
    // Those that were merged into this one before are the heir's now, too.
    for (const profile of [from, ...mergedBefore(parts)]) await this.#record(profile, owner);
    await this.#store.run(DONE, [keys.visits(from), ...keys.journal(from)], [heir]);
    return owner;
  }

  async #give(from: string, heir: string, parts: readonly string[][]): Promise<string> {
    const args = [from, ...parts.map((part) => part.length), ...parts.flat()];
    let at = heir;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const reply = await this.#store.run(GIVE, belongings(this.#store.keys, at), args);
      if (typeof reply !== 'string') return at;
      // The heir was merged away meanwhile. Its own merge comes first: the record of ours may be on its way.
      at = reply.startsWith('!') ? await this.merge(at, reply.slice(1)) : reply;
    }
    throw new ServiceError('internal');
  }
}

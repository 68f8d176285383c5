// Runs scripts at a profile, wherever that is by now. A profile that was merged away has a tombstone that
// names its heir; scripts answer with it (a string) and do nothing. A tombstone that begins with `!` belongs
// to a merge that has not handed everything over yet: whoever meets it finishes the job first.

import { ServiceError } from '../errors.js';
import type { Keys } from './keys.js';
import type { Script, ScriptArg } from './scripts.js';
import type { Store } from './store.js';

/** Merges in a chain; more than a few would be a circle in the data. */
export const MAX_HOPS = 16;

export type FinishMerge = (from: string, heir: string) => Promise<void>;

export class AtProfile {
  readonly #store: Store;
  readonly #finishMerge: FinishMerge;

  constructor(store: Store, finishMerge: FinishMerge) {
    this.#store = store;
    this.#finishMerge = finishMerge;
  }

  /**
   * @param keysOf the script's keys for a profile; the script answers a string only for a tombstone
   * @returns the reply, and the profile that gave it
   * @throws ServiceError `unavailable`
   */
  async run(
    profileId: string,
    script: Script,
    keysOf: (keys: Keys, profileId: string) => readonly string[],
    args: readonly ScriptArg[],
  ): Promise<{ readonly profileId: string; readonly reply: unknown }> {
    let at = profileId;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const reply = await this.#store.run(script, keysOf(this.#store.keys, at), args);
      if (typeof reply !== 'string') return { profileId: at, reply };
      at = await this.follow(at, reply);
    }
    throw new ServiceError('internal');
  }

  /** Where a tombstone or a link leads. */
  async follow(from: string, target: string): Promise<string> {
    if (!target.startsWith('!')) return target;
    const heir = target.slice(1);
    await this.#finishMerge(from, heir);
    return heir;
  }
}

// Runs scripts at a profile, wherever that is by now. A profile that was merged away has a tombstone that names its
// heir; scripts answer with it (a string) and do nothing. A tombstone that begins with `!` belongs to a merge that has
// not handed everything over yet: the request that meets it finishes the merge first. `@` says that the profile is being
// erased, or is no room (any more): what is left of the erasure is done first.

import { ServiceError } from '../errors.js';
import type { Keys } from './keys.js';
import type { Script, ScriptArg } from './scripts.js';
import type { Store } from './store.js';

/** Where something of a visitor is done: at a door, or at a room. */
export interface Place {
  readonly profileId: string;
  readonly isRoom: boolean;
  /** The identity whose door is checked in the same step, and its own profile; both empty where it was asked before. */
  readonly checked: string;
  readonly own: string;
  /** At a room: what a door that is checked must say, see Door. Else empty. */
  readonly field: string;
}

/** A profile that was asked for before, or is known by itself. */
export function placeOf(profileId: string): Place {
  return { profileId, isRoom: true, checked: '', own: '', field: '' };
}

/** Steps from one place to the next; more than a few would be a circle in the data. */
export const MAX_HOPS = 16;

/** @returns the profile that has everything now; undefined where it was erased @throws ServiceError `unavailable` */
export type FinishMerge = (from: string, heir: string) => Promise<string | undefined>;

/** Does what is left of a profile's erasure, if there is one. @throws ServiceError `unavailable` */
export type FinishErasure = (profileId: string) => Promise<void>;

/** What stands for an heir where a profile is being erased, or is no room (any more). */
export const ERASED = '@';

export class AtProfile {
  readonly #store: Store;
  readonly #finishMerge: FinishMerge;
  readonly #finishErasure: FinishErasure;

  constructor(store: Store, finishMerge: FinishMerge, finishErasure: FinishErasure) {
    this.#store = store;
    this.#finishMerge = finishMerge;
    this.#finishErasure = finishErasure;
  }

  /**
   * @param call `change` for a script that changes something, see Store
   * @param keysOf the script's keys for a profile; the script answers a string only for a tombstone
   * @returns the reply, and the profile that gave it
   * @throws ServiceError `unavailable`
   */
  async run<Reply>(
    call: 'run' | 'change',
    profileId: string,
    script: Script<Reply>,
    keysOf: (keys: Keys, profileId: string) => readonly string[],
    args: readonly ScriptArg[],
  ): Promise<{ readonly profileId: string; readonly reply: Exclude<Reply, string> }> {
    let at = profileId;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const reply = await this.#store[call](script, keysOf(this.#store.keys, at), args);
      if (typeof reply !== 'string') return { profileId: at, reply: reply as Exclude<Reply, string> };
      at = await this.follow(at, reply);
    }
    throw new ServiceError('internal');
  }

  /**
   * What a profile was merged into, also while that merge is under way; undefined where it was erased.
   * @throws ServiceError `unavailable`
   */
  async presentOf(profileId: string): Promise<string | undefined> {
    let at = profileId;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      const key = this.#store.keys.profile(at);
      const heir = await this.#store.call((client) => client.hget(key, 'heir'));
      if (heir === null) return at;
      if (heir === ERASED) {
        await this.#finishErasure(at);
        return undefined;
      }
      at = heir.replace(/^!/, '');
    }
    throw new ServiceError('internal');
  }

  /** Where a tombstone leads; to the profile itself where it was erased. @throws ServiceError `unavailable` */
  async follow(from: string, tombstone: string): Promise<string> {
    if (tombstone.startsWith(ERASED)) {
      await this.#finishErasure(from);
      return from;
    }
    if (!tombstone.startsWith('!')) return tombstone;
    return (await this.#finishMerge(from, tombstone.slice(1))) ?? from;
  }
}

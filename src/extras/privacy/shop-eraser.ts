// Erases every visitor of the shop, in steps that each take Redis less than a few milliseconds.
//
//   written down for streams and ClickHouse, as one erasure of all ──▶ by SCAN, each profile with all of its keys; twice,
//   since what moves meanwhile may be missed ──▶ written down once more
//
// It may be ended anywhere, and begins anew. Visitors who come meanwhile may be erased, too. What is under way meanwhile finds
// that the profile has lost its generation. (SCAN takes turns with other requests: AT_ONCE steps are under way at a time.)

import type { Redis } from 'ioredis';
import { EVERY_PROFILE } from '../../identity-rules.js';
import type { Pending } from '../../profiles/pending.js';
import { queueRows } from '../../profiles/queued-rows.js';
import { mastersOf } from '../../redis/client.js';
import { PROFILE_KINDS } from '../../redis/keys.js';
import { removeKeys } from '../../redis/remove.js';
import type { Store } from '../../redis/store.js';

/** Names or keys of one step: SCAN looks at ten times as many places of a table that has become empty. */
const PAGE = 200;
/** Profiles under way at once. */
const AT_ONCE = 16;
/** Keys of one profile, and what belongs to a generation of it; src/redis/keys.ts spells them. */
const OF_PROFILE = new RegExp(`^\\{([0-9a-z]+)\\}:j?[${PROFILE_KINDS.join('')}]:([^:]+)$`);
const OF_GENERATION = /^\{[0-9a-z]+\}:(?:x|zg):/;
/** Request records, the index of e-mail addresses, share codes, the index of wishers. */
const OF_VISITORS = /^\{(?:request|email|share|wish):/;

/** Called now and then while it goes on; throws to end it. */
export type OnStep = () => Promise<void> | void;

export class ShopEraser {
  readonly #store: Store;
  readonly #pending: Pending;

  constructor(store: Store, pending: Pending) {
    this.#store = store;
    this.#pending = pending;
  }

  /**
   * @returns the profiles that were written down: one that stands for all
   * @throws ServiceError `unavailable`, and what `onStep` throws
   */
  async erase(onStep: OnStep = () => {}): Promise<string[]> {
    await queueRows(this.#store, [EVERY_PROFILE]);
    for (let i = 0; i < 2; i++) await this.#eraseFound(onStep);
    await this.#pending.clear();
    await queueRows(this.#store, [EVERY_PROFILE]);
    return [EVERY_PROFILE];
  }

  async #eraseFound(onStep: OnStep): Promise<void> {
    const [prefix = ''] = this.#store.keys.mark(0).split('{');
    // A profile that can't be erased does not keep the others.
    let failed: unknown;
    for (const node of await this.#nodes()) {
      let cursor = '0';
      do {
        await onStep();
        const from = cursor;
        const [after, found] = await this.#store.call(() =>
          node.scan(from, 'MATCH', `${prefix}{*`, 'COUNT', PAGE),
        );
        cursor = after;
        await this.#erasePage(
          found.map((key) => key.slice(prefix.length)),
          prefix,
        ).catch((error) => {
          failed = error;
        });
      } while (cursor !== '0');
    }
    if (failed !== undefined) throw failed;
  }

  async #erasePage(spelled: readonly string[], prefix: string): Promise<void> {
    const { keys } = this.#store;
    const profiles = new Set<string>();
    const steps: (readonly string[])[] = [];
    for (const key of spelled) {
      const [, bucket, rest] = OF_PROFILE.exec(key) ?? [];
      if (bucket !== undefined) profiles.add(`${bucket}.${rest}`);
      else if (OF_VISITORS.test(key) || OF_GENERATION.test(key)) steps.push([prefix + key]);
    }
    for (const profileId of profiles) steps.push(keys.allOf(profileId));
    let next = 0;
    const work = async () => {
      for (let step = steps[next++]; step !== undefined; step = steps[next++])
        await removeKeys(this.#store, step);
    };
    await together(Array.from({ length: AT_ONCE }, work));
  }

  /** Every server that has keys. */
  async #nodes(): Promise<readonly Redis[]> {
    return this.#store.call(async (client) => mastersOf(client));
  }
}

/** All of them; fails as the first that does, once none is under way any more. */
async function together(work: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
}

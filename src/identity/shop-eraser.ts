// Erases every visitor of the shop, in steps that each take Redis less than a few milliseconds.
//
//   written down for streams and ClickHouse, as one erasure of all ──▶ by SCAN, each profile: a guest in one step, a room
//   as one visitor ──▶ by SCAN, what is left: doors without a room, tombstones ──▶ written down once more
//
// It may be ended anywhere, and begins anew: what is gone takes no time any more. Visitors who come meanwhile may be
// erased, too. The audit of merges may finish a visitor that it finds half erased; it writes that one down as well, which
// changes nothing. (SCAN takes turns with other requests: AT_ONCE steps are under way at a time.)

import type { Redis } from 'ioredis';
import { EVERY_PROFILE } from '../identity-rules.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Eraser } from './eraser.js';

const ERASURES = loadScript('erasures');
const GUEST = loadScript('erase-guest');
const PUT = loadScript('put');
/** Names or keys of one step: SCAN looks at ten times as many places of a table that has become empty. */
const PAGE = 200;
/** Visitors under way at once. */
const AT_ONCE = 16;
/** Kinds of keys of one profile; src/redis/keys.ts spells them. */
const OF_PROFILE = /^\{([0-9a-z]+)\}:(?:v|r|p|i|g|q|jv|ji|jp|jg):([^:]+)$/;
/** Request records, which may name a customer, and the index of e-mail addresses. */
const OF_VISITORS = /^\{(?:request|email):/;

/** Told now and then that it goes on; throws to end it. */
export type OnStep = () => Promise<void> | void;

export class ShopEraser {
  readonly #store: Store;
  readonly #eraser: Eraser;

  /** @param eraser that writes nothing down */
  constructor(store: Store, eraser: Eraser) {
    this.#store = store;
    this.#eraser = eraser;
  }

  /**
   * @returns the profiles that were written down: one that stands for all
   * @throws ServiceError `unavailable`, and what `onStep` throws
   */
  async erase(onStep: OnStep = () => {}): Promise<string[]> {
    await this.#writeDown();
    await this.#eraseFound(onStep, false);
    await this.#eraseFound(onStep, true);
    await this.#writeDown();
    return [EVERY_PROFILE];
  }

  async #writeDown(): Promise<void> {
    await this.#store.change(ERASURES, [this.#store.keys.erasures], [Date.now(), EVERY_PROFILE]);
  }

  /** @param isLeft whether visitors were erased before: also what leads to none */
  async #eraseFound(onStep: OnStep, isLeft: boolean): Promise<void> {
    const [prefix = ''] = this.#store.keys.mark(0).split('{');
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
          isLeft,
        );
      } while (cursor !== '0');
    }
  }

  async #erasePage(spelled: readonly string[], prefix: string, isLeft: boolean): Promise<void> {
    const profiles = new Set<string>();
    const others: string[] = [];
    for (const key of spelled) {
      const [, bucket, rest] = OF_PROFILE.exec(key) ?? [];
      if (bucket !== undefined) profiles.add(`${bucket}.${rest}`);
      else if (OF_VISITORS.test(key)) others.push(prefix + key);
    }
    const steps = [
      ...[...profiles].map((profileId) => () => this.#eraseProfile(profileId, isLeft)),
      ...others.map((key) => () => this.#store.change(PUT, [key], [''])),
    ];
    let next = 0;
    const work = async () => {
      for (let step = steps[next++]; step !== undefined; step = steps[next++]) await step();
    };
    await together(Array.from({ length: AT_ONCE }, work));
  }

  async #eraseProfile(profileId: string, isLeft: boolean): Promise<void> {
    if (!(await this.#eraseGuest(profileId, isLeft))) return;
    // A room, or a tombstone that leads to one.
    if (!(await this.#eraser.eraseProfile(profileId, ''))) await this.#eraseGuest(profileId, true);
  }

  /** @returns whether it is a room or a tombstone, and still there */
  async #eraseGuest(profileId: string, isLeft: boolean): Promise<boolean> {
    const { keys } = this.#store;
    const touched = [
      keys.profile(profileId),
      keys.door(profileId),
      keys.room(profileId),
      keys.items(profileId),
      keys.merged(profileId),
      keys.requests(profileId),
      ...keys.journal(profileId),
    ];
    const reply = await this.#store.change(GUEST, touched, [isLeft ? 1 : 0]);
    if (typeof reply !== 'string') return reply === 1;
    if (reply !== '') await this.#store.change(PUT, [keys.share(reply)], ['']);
    return false;
  }

  /** Every server that has keys. */
  async #nodes(): Promise<Redis[]> {
    return this.#store.call(async (client) => ('nodes' in client ? client.nodes('master') : [client]));
  }
}

/** All of them; fails as the first that does, once none is under way any more. */
async function together(work: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
}

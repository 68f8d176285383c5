// Erases every visitor of the shop, in steps that each take Redis less than a few milliseconds.
//
//   written down for streams and ClickHouse, as one erasure of all ──▶ identities, bucket by bucket, each as one visitor
//   ──▶ what is left, by SCAN: guests at home, whom only their door knows ──▶ written down once more
//
// It may be ended anywhere, and begins anew: what is gone takes no time any more. Visitors who come meanwhile may be
// erased, too. The audit of merges may finish a visitor that it meets half erased; it writes that one down as well, which
// changes nothing. (Buckets and SCAN take turns with other requests: AT_ONCE steps are under way at a time.)

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
/** Visitors, or buckets that are looked at, under way at once. */
const AT_ONCE = 16;
/** Kinds of keys of one profile; src/redis/keys.ts spells them. */
const OF_PROFILE = /^\{([0-9a-z]+)\}:(?:v|r|p|i|o|g|q|m|jv|ji|jo|jp|jg):([^:]+)$/;
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
    await this.#eraseKnown(onStep);
    await this.#eraseLeft(onStep);
    await this.#writeDown();
    return [EVERY_PROFILE];
  }

  async #writeDown(): Promise<void> {
    await this.#store.change(ERASURES, [this.#store.keys.erasures], [Date.now(), EVERY_PROFILE]);
  }

  /** Identities that have a field in their bucket: customers, linked sessions, and guests without counts. */
  async #eraseKnown(onStep: OnStep): Promise<void> {
    const { keys, deployment } = this.#store;
    let next = 0;
    const work = async () => {
      while (next < deployment.buckets) {
        const bucket = (next++).toString(36);
        await onStep();
        for await (const names of this.#pagesOf(keys.ids(bucket)))
          for (const name of names) {
            await this.#eraser.erase(name);
            await onStep();
          }
      }
    };
    await together(Array.from({ length: AT_ONCE }, work));
  }

  async #eraseLeft(onStep: OnStep): Promise<void> {
    const [prefix = ''] = this.#store.keys.ids('').split('{');
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
        );
      } while (cursor !== '0');
    }
  }

  async #erasePage(spelled: readonly string[], prefix: string): Promise<void> {
    const profiles = new Set<string>();
    const others: string[] = [];
    for (const key of spelled) {
      const [, bucket, rest] = OF_PROFILE.exec(key) ?? [];
      if (bucket !== undefined) profiles.add(`${bucket}.${rest}`);
      else if (OF_VISITORS.test(key)) others.push(prefix + key);
    }
    const steps = [
      ...[...profiles].map((profileId) => () => this.#eraseProfile(profileId)),
      ...others.map((key) => () => this.#store.change(PUT, [key], [''])),
    ];
    let next = 0;
    const work = async () => {
      for (let step = steps[next++]; step !== undefined; step = steps[next++]) await step();
    };
    await together(Array.from({ length: AT_ONCE }, work));
  }

  async #eraseProfile(profileId: string): Promise<void> {
    if (!(await this.#eraseGuest(profileId, false))) return;
    // A room that no identity led to, or a tombstone.
    if (!(await this.#eraser.eraseProfile(profileId, ''))) await this.#eraseGuest(profileId, true);
  }

  /** @returns whether it is a room or a tombstone, and still there */
  async #eraseGuest(profileId: string, isAlone: boolean): Promise<boolean> {
    const { keys } = this.#store;
    const touched = [
      keys.profile(profileId),
      keys.door(profileId),
      keys.room(profileId),
      keys.items(profileId),
      keys.outbox(profileId),
      keys.merged(profileId),
      keys.requests(profileId),
      ...keys.journal(profileId),
    ];
    const reply = await this.#store.change(GUEST, touched, [isAlone ? 1 : 0]);
    if (typeof reply !== 'string') return reply === 1;
    if (reply !== '') await this.#store.change(PUT, [keys.share(reply)], ['']);
    return false;
  }

  async *#pagesOf(key: string): AsyncGenerator<string[]> {
    let cursor = '0';
    do {
      const from = cursor;
      const [next, fields] = await this.#store.call((client) => client.hscan(key, from, 'COUNT', PAGE));
      cursor = next;
      yield fields.filter((_, i) => i % 2 === 0);
    } while (cursor !== '0');
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

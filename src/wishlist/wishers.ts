// Who may have a variant of a product on their wishlist: an index, which lua/wish.lua writes, for src/products/. The wishlist is
// what counts: the index has each profile whose wishlist has the item, and may have others.
//
// So a profile is noted here before its item is written, and taken out after that has gone. It is not taken out while its item may
// still be on its way: only where the item was seen to be absent, and GRACE_MS after the profile was noted. (Of a visitor who is
// erased at once: an addition that is under way in that very moment may be missing here, until it is made again.) What a crash or
// that grace leaves is a profile's id, and goes when the product changes next.

import { hash } from 'node:crypto';
import type { Batched, BatchFormat } from '../redis/batch-calls.js';
import type { Batcher } from '../redis/batcher.js';
import { readHash } from '../redis/hash.js';
import { tagOf } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { NOT_HERE } from '../redis/sender.js';
import type { Store } from '../redis/store.js';

const UNWISH = loadScript<number>('unwish');
/** Milliseconds: far longer than an addition takes from the first step to the last. */
const GRACE_MS = 60_000;
/** Profiles that a page has at most: few, so that it takes the event loop a millisecond or two. */
const PAGE = 16;
/** Indexes that are changed at once. */
const AT_ONCE = 50;
/** Fields that HSCAN looks at. */
const SCANNED = 500;
/** Of a digest: 132 bits. */
const DIGITS = 22;

interface Wish extends Batched<undefined> {
  readonly index: string;
  readonly profileId: string;
}

export class Wishers {
  readonly #store: Store;
  readonly #wishes: Batcher<Wish, undefined>;
  readonly #graceMs: number;

  /** @param graceMs other than GRACE_MS in tests */
  constructor(store: Store, onBatch?: (size: number, ms: number) => void, graceMs = GRACE_MS) {
    this.#store = store;
    this.#wishes = store.batcher(FORMAT, onBatch);
    this.#graceMs = graceMs;
  }

  /** Before the item is written. @param field of the item, see itemField @throws ServiceError `unavailable` */
  add(field: string, profileId: string): Promise<void> {
    return this.#wishes.run({ index: this.#indexOf(field), profileId });
  }

  /** @throws as `add` */
  async addAll(fields: readonly string[], profileId: string): Promise<void> {
    await Promise.all(fields.map((field) => this.add(field, profileId)));
  }

  /** Of a profile that will not have these items any more. @throws ServiceError `unavailable` */
  remove(fields: readonly string[], profileId: string): Promise<void> {
    return this.#unwish(fields, profileId, 0);
  }

  /** After items have gone; those that are there stay, and so does what can't be removed now. */
  async forget(fields: readonly string[], profileId: string): Promise<void> {
    const items = this.#store.keys.items(profileId);
    try {
      for (let i = 0; i < fields.length; i += AT_ONCE) {
        const some = fields.slice(i, i + AT_ONCE);
        const held = await this.#store.call((client) => client.hmget(items, ...some));
        const gone = some.filter((_, at) => held[at] === null);
        await this.#unwish(gone, profileId, this.#graceMs);
      }
    } catch {
      // It goes when the product changes next.
    }
  }

  /** Fields of all items under a key. @throws ServiceError `unavailable` */
  async fieldsOf(items: string): Promise<string[]> {
    return [...(await readHash(this.#store, items)).keys()];
  }

  /** All profiles that may have an item, in pages, some maybe twice. @throws ServiceError `unavailable` */
  pages(field: string): AsyncGenerator<readonly string[]> {
    return this.#pagesOf(this.#indexOf(field));
  }

  async *#pagesOf(index: string): AsyncGenerator<readonly string[]> {
    let cursor = '0';
    do {
      const from = cursor;
      const [next, noted] = await this.#store.call((client) => client.hscan(index, from, 'COUNT', SCANNED));
      cursor = next;
      const profiles = noted.filter((_, i) => i % 2 === 0);
      for (let i = 0; i < profiles.length; i += PAGE) yield profiles.slice(i, i + PAGE);
    } while (cursor !== '0');
  }

  /**
   * Takes out profiles that are gone, and were noted `graceMs` ago. (One that is merged has a profile, and is followed.)
   * @param digest of an index @returns how many @throws ServiceError `unavailable`
   */
  async sweep(digest: string, graceMs: number): Promise<number> {
    const { keys } = this.#store;
    const index = keys.wishers(digest);
    let gone = 0;
    for await (const page of this.#pagesOf(index)) {
      const there = await Promise.all(
        page.map((one) =>
          this.#store.call(async (client) => client.exists(keys.profile(one), keys.items(one))),
        ),
      );
      const left = page.filter((_, at) => there[at] === 0);
      if (left.length > 0) gone += await this.#store.change(UNWISH, [index], [graceMs, ...left]);
    }
    return gone;
  }

  async close(): Promise<void> {
    await this.#wishes.close();
  }

  async #unwish(fields: readonly string[], profileId: string, graceMs: number): Promise<void> {
    for (let i = 0; i < fields.length; i += AT_ONCE)
      await Promise.all(
        fields
          .slice(i, i + AT_ONCE)
          .map((field) => this.#store.change(UNWISH, [this.#indexOf(field)], [graceMs, profileId])),
      );
  }

  #indexOf(field: string): string {
    return this.#store.keys.wishers(hash('sha256', field, 'base64url').slice(0, DIGITS));
  }
}

const FORMAT: BatchFormat<Wish, undefined> = {
  script: loadScript('wish'),
  tag: ({ index }) => tagOf(index),
  mixesTags: true,
  writes: () => true,
  encode(wishes, call) {
    call.arg(wishes.map(({ index, profileId }) => `${index}\n${profileId}\n`).join(''));
  },
  decode(wishes, reply) {
    const answers = new Array<undefined | typeof NOT_HERE>(wishes.length).fill(undefined);
    const list = reply as (number | typeof NOT_HERE)[];
    for (let i = 0; i < list.length; i += 2)
      answers[(list[i] as number) - 1] = list[i + 1] as typeof NOT_HERE;
    return answers;
  },
};

// An index from product variants to their subscribers. It has every profile with the item on its wishlist: an entry is
// added before its item, and kept for GRACE_MS even if the item is absent. The product's next change removes stale
// entries. An erasure ignores GRACE_MS, so an item that is added during it may lack its entry until it is added again.

import { hash } from 'node:crypto';
import type { Host } from '../../app/extra.js';
import type { Identity } from '../../identity-rules.js';
import type { ItemIndex } from '../../profiles/item-index.js';
import { type Batched, type BatchFormat, listedAnswers } from '../../redis/batch-calls.js';
import type { Batcher } from '../../redis/batcher.js';
import { tagOf } from '../../redis/keys.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import type { AlertsConfig } from '../settings.js';
import { alertKeys, SUBSCRIBERS_TAG } from './keys.js';

const REMOVE = loadScript<number>('extras/alerts/removeSubscriber');
/** Longer than it takes to add an entry and its item. */
const GRACE_MS = 60_000;
/** Profiles per page, which block the event loop for a millisecond or two. */
const PAGE = 16;
const MAX_CONCURRENT = 50;
const SCANNED = 500;
/** Characters of a field's digest: 132 bits. */
const DIGITS = 22;

interface Entry extends Batched<undefined> {
  readonly index: string;
  readonly profileId: string;
}

export class Subscribers implements ItemIndex {
  readonly tag = SUBSCRIBERS_TAG;
  readonly #store: Store;
  readonly #keyOf: (digest: string) => string;
  readonly #additions: Batcher<Entry, undefined>;
  readonly #graceMs: number;

  constructor(store: Store, onBatch?: (size: number, ms: number) => void, graceMs = GRACE_MS) {
    this.#store = store;
    this.#keyOf = alertKeys(store.keys).subscribers;
    this.#additions = store.batcher(FORMAT, onBatch);
    this.#graceMs = graceMs;
  }

  add(field: string, profileId: string): Promise<void> {
    return this.#additions.run({ index: this.#indexOf(field), profileId });
  }

  noteOf({ customerId, sessionId }: Identity): string {
    return ` ${JSON.stringify([customerId, sessionId])}`;
  }

  async addAll(fields: readonly string[], profileId: string): Promise<void> {
    await Promise.all(fields.map((field) => this.add(field, profileId)));
  }

  remove(fields: readonly string[], profileId: string): Promise<void> {
    return this.#removeFrom(fields, profileId, 0);
  }

  async forget(fields: readonly string[], profileId: string): Promise<void> {
    const items = this.#store.keys.items(profileId);
    try {
      for (let i = 0; i < fields.length; i += MAX_CONCURRENT) {
        const some = fields.slice(i, i + MAX_CONCURRENT);
        const held = await this.#store.call((client) => client.hmget(items, ...some));
        const absent = some.filter((_, at) => held[at] === null);
        await this.#removeFrom(absent, profileId, this.#graceMs);
      }
    } catch {
      // The product's next change removes the entry.
    }
  }

  /** Yields the subscribers of an item, perhaps some of them twice. */
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

  async sweep(digest: string, graceMs: number): Promise<number> {
    const { keys } = this.#store;
    const index = this.#keyOf(digest);
    let removed = 0;
    for await (const page of this.#pagesOf(index)) {
      const there = await Promise.all(
        page.map((one) =>
          this.#store.call(async (client) => client.exists(keys.profile(one), keys.items(one))),
        ),
      );
      const left = page.filter((_, at) => there[at] === 0);
      if (left.length > 0) removed += await this.#store.change(REMOVE, [index], [graceMs, ...left]);
    }
    return removed;
  }

  async close(): Promise<void> {
    await this.#additions.close();
  }

  async #removeFrom(fields: readonly string[], profileId: string, graceMs: number): Promise<void> {
    for (let i = 0; i < fields.length; i += MAX_CONCURRENT)
      await Promise.all(
        fields
          .slice(i, i + MAX_CONCURRENT)
          .map((field) => this.#store.change(REMOVE, [this.#indexOf(field)], [graceMs, profileId])),
      );
  }

  #indexOf(field: string): string {
    return this.#keyOf(hash('sha256', field, 'base64url').slice(0, DIGITS));
  }
}

export function openSubscribers({
  store,
  config,
  onClose,
  batchObserver,
}: Pick<Host, 'store' | 'onClose'> &
  Partial<Pick<Host, 'batchObserver'>> & { readonly config: AlertsConfig }): Subscribers | undefined {
  if (config.PRODUCT_ALERTS === 'off') return undefined;
  const subscribers = new Subscribers(store, batchObserver?.('addSubscribers'));
  onClose(() => subscribers.close());
  return subscribers;
}

const FORMAT: BatchFormat<Entry, undefined> = {
  script: loadScript('extras/alerts/addSubscribers'),
  tag: ({ index }) => tagOf(index),
  mixesTags: true,
  writes: () => true,
  encode(entries, call) {
    call.arg(entries.map(({ index, profileId }) => `${index}\n${profileId}\n`).join(''));
  },
  decode: (entries, reply) => listedAnswers<undefined>(entries.length, reply),
};

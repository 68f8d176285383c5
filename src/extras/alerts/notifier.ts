// Sends the alerts of a product's change to its subscribers. This may be interrupted, repeated and run concurrently,
// because an item has the reported state and changes by compare-and-set.

import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceError } from '../../errors.js';
import { isRedirect, ownLocation } from '../../redis/location.js';
import type { Store } from '../../redis/store.js';
import { prepareEvent } from '../../wishlist/changes.js';
import { OTHER_ITEM, type WishlistBatch } from '../../wishlist/wishlist-batch.js';
import {
  type AlertType,
  type Offer,
  offerOf,
  type Product,
  readWish,
  stepsOf,
  type Variant,
  variantsByField,
  type Wish,
} from './alert.js';
import type { Subscribers } from './subscribers.js';

/** Pause after a page of subscribers, as a multiple of the time that it took, so that visits have priority. */
const PAUSE = 6;
const LONGEST_PAUSE_MS = 50;
const ROUNDS = 16;

export type Counts = Record<AlertType, number>;

export interface Change {
  readonly product: Product;
  readonly version: number;
  readonly since: number;
}

export interface NotifierSpec {
  readonly store: Store;
  readonly wishlists: WishlistBatch;
  readonly subscribers: Subscribers;
  /** Follows merges. */
  readonly presentOf: (profileId: string) => Promise<string>;
  readonly shopCurrency: string | null;
  /** Called before each subscriber's item is read. Tests stop the process here. */
  readonly onSubscriber?: ((profileId: string) => Promise<void> | void) | undefined;
}

interface ChangedItem {
  readonly field: string;
  readonly variants: readonly Variant[];
}

export class Notifier {
  constructor(private readonly spec: NotifierSpec) {}

  async notify(change: Change, signal: AbortSignal): Promise<Counts> {
    const counts: Counts = { priceDrop: 0, backInStock: 0 };
    if (!change.product.isPublished && change.since === 0) return counts;
    let failed: unknown;
    for (const [field, variants] of variantsByField(change.product)) {
      let pauseMs = 0;
      for await (const profiles of this.spec.subscribers.pages(field)) {
        signal.throwIfAborted();
        if (pauseMs > 0) await sleep(pauseMs);
        const began = performance.now();
        const settled = await Promise.allSettled(
          profiles.map((profileId) => this.#notifyOne(profileId, { field, variants }, change, counts)),
        );
        // After a failure the other subscribers are notified, and the product stays in the journal.
        for (const one of settled) if (one.status === 'rejected') failed ??= one.reason;
        if (failed instanceof ServiceError && failed.code === 'overloaded') throw failed;
        pauseMs = Math.min(PAUSE * (performance.now() - began), LONGEST_PAUSE_MS);
      }
    }
    if (failed !== undefined) throw failed;
    return counts;
  }

  async #notifyOne(noted: string, changed: ChangedItem, change: Change, counts: Counts): Promise<void> {
    const { field } = changed;
    const { store, presentOf, subscribers, onSubscriber } = this.spec;
    let profileId = noted;
    for (let round = 0; round < ROUNDS; round++) {
      await onSubscriber?.(profileId);
      const stored = await store.call((client) => client.hget(store.keys.items(profileId), field));
      if (stored !== null) {
        if (await this.#notifyItem({ ...readWish(stored), profileId }, changed, change, counts)) return;
        continue;
      }
      const present = await presentOf(profileId);
      if (present === profileId) return subscribers.forget([field], profileId);
      await subscribers.add(field, present);
      await subscribers.remove([field], profileId);
      profileId = present;
    }
    throw new ServiceError('unavailable');
  }

  /** @returns false if the item was changed or moved meanwhile */
  async #notifyItem(
    wish: Wish & { readonly profileId: string },
    { field, variants }: ChangedItem,
    { product, version, since }: Change,
    counts: Counts,
  ): Promise<boolean> {
    const { profileId } = wish;
    const [creationLine, , content] = wish.stored.split('\n');
    let item = wish.stored;
    const now = product.isPublished ? offerOf(wish, variants, this.spec.shopCurrency) : undefined;
    const steps = stepsOf(wish, now, version, since);
    if (steps.length === 0) return true;
    const { store, wishlists } = this.spec;
    const name = await store.call((client) => client.hget(store.keys.profile(profileId), 'name'));
    const customerId = name?.startsWith('c:') ? name.slice(2) : wish.customerId;
    for (const { secondLine, type } of steps) {
      const event = type && now && eventOf(type, { ...wish, customerId }, now, product);
      const asked = { kind: 'notify', field, item, secondLine, event } as const;
      const answer = await wishlists.make(ownLocation(profileId), asked);
      if (answer === OTHER_ITEM || isRedirect(answer)) return false;
      if (type !== undefined) counts[type]++;
      item = `${creationLine}\n${secondLine}\n${content}`;
    }
    return true;
  }
}

function eventOf(
  type: AlertType,
  { item, sessionId, profileId, customerId }: Wish & { readonly profileId: string },
  now: Offer,
  product: Product,
) {
  const notKept = { device: null, locale: null, email: null, firstName: null, lastName: null };
  return prepareEvent({
    type,
    origin: 'alert',
    profileId,
    identity: { ...notKept, customerId, sessionId },
    payload: {
      productId: product.productId,
      variantId: item.variantId,
      productHandle: product.productHandle,
      productTitle: product.productTitle,
      priceBefore: item.price,
      price: now.price,
      currencyCode: now.currencyCode,
    },
  });
}

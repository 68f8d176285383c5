// Tells those who wished for a product of its changes: goes through their index in pages, reads each item, and makes the steps
// that a change means to it, each with its event, in one call (lua/wishlist.lua). Events go to receivers as all others do.
//
// It may end anywhere, begin anew, and run beside another one: an item says what was told, and a step is made only in an item
// that is as it was read.

import { setTimeout as sleep } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import { linkedPlace, MAX_HOPS, type Place } from '../redis/place.js';
import type { Store } from '../redis/store.js';
import { prepareEvent } from '../wishlist/changes.js';
import type { Wishers } from '../wishlist/wishers.js';
import { OTHER_ITEM, type WishlistBatch } from '../wishlist/wishlist-batch.js';
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

/** A pause between two pages, in the times that the page took: visits go first. On a busy machine a page takes long. */
const PAUSE = 6;
const LONGEST_PAUSE_MS = 50;
/** Each lost round means that another request changed the same item, or moved it. */
const ROUNDS = MAX_HOPS;

/** How often each was told. */
export type Counts = Record<AlertType, number>;

/** A product as it was written down. */
export interface Change {
  readonly product: Product;
  readonly version: number;
  /** See stepsOf. */
  readonly since: number;
}

export interface TellerSpec {
  readonly store: Store;
  readonly wishlists: WishlistBatch;
  readonly wishers: Wishers;
  /** Where what a profile had is now. */
  readonly placeOf: (profileId: string) => Promise<Place | undefined>;
  /** Of items and variants that name none; upper case. */
  readonly shopCurrency: string | null;
  /** Called and waited for before each item: tests stop the process there. */
  readonly onWisher?: ((profileId: string) => Promise<void> | void) | undefined;
}

export class Teller {
  readonly #spec: TellerSpec;

  constructor(spec: TellerSpec) {
    this.#spec = spec;
  }

  /** @throws ServiceError `unavailable`, `overloaded`; the signal's reason */
  async tell(change: Change, signal: AbortSignal): Promise<Counts> {
    const counts: Counts = { priceDrop: 0, backInStock: 0 };
    if (!change.product.isPublished && change.since === 0) return counts;
    let failed: unknown;
    for (const [field, variants] of variantsByField(change.product)) {
      let pauseMs = 0;
      for await (const profiles of this.#spec.wishers.pages(field)) {
        signal.throwIfAborted();
        if (pauseMs > 0) await sleep(pauseMs);
        const began = performance.now();
        const told = await Promise.allSettled(
          profiles.map((profileId) => this.#tellOne(profileId, field, variants, change, counts)),
        );
        // One that fails keeps the product open, and no other from being told.
        for (const one of told) if (one.status === 'rejected') failed ??= one.reason;
        if (failed instanceof ServiceError && failed.code === 'overloaded') throw failed;
        pauseMs = Math.min(PAUSE * (performance.now() - began), LONGEST_PAUSE_MS);
      }
    }
    if (failed !== undefined) throw failed;
    return counts;
  }

  async #tellOne(
    noted: string,
    field: string,
    variants: readonly Variant[],
    change: Change,
    counts: Counts,
  ): Promise<void> {
    const { store, placeOf, wishers, onWisher } = this.#spec;
    let profileId = noted;
    for (let round = 0; round < ROUNDS; round++) {
      await onWisher?.(profileId);
      const stored = await store.call((client) => client.hget(store.keys.items(profileId), field));
      if (stored !== null) {
        if (await this.#tellOf(readWish(stored), profileId, field, variants, change, counts)) return;
        continue;
      }
      const place = await placeOf(profileId);
      if (place === undefined || place.profileId === profileId) return wishers.forget([field], profileId);
      // It was merged into that one.
      await wishers.add(field, place.profileId);
      await wishers.remove([field], profileId);
      profileId = place.profileId;
    }
    throw new ServiceError('unavailable');
  }

  /** @returns false where the item is another one by now */
  async #tellOf(
    wish: Wish,
    profileId: string,
    field: string,
    variants: readonly Variant[],
    { product, version, since }: Change,
    counts: Counts,
  ): Promise<boolean> {
    const [creationLine, , content] = wish.stored.split('\n');
    let item = wish.stored;
    const now = product.isPublished ? offerOf(wish, variants, this.#spec.shopCurrency) : undefined;
    for (const { told, type } of stepsOf(wish, now, version, since)) {
      const event = type && now && (await this.#eventOf(type, wish, profileId, now, product));
      const asked = { kind: 'tell', field, item, told, event } as const;
      const answer = await this.#spec.wishlists.make(linkedPlace(profileId, ''), asked);
      if (answer === OTHER_ITEM) return false;
      if (type !== undefined) counts[type]++;
      item = `${creationLine}\n${told}\n${content}`;
    }
    return true;
  }

  async #eventOf(type: AlertType, wish: Wish, profileId: string, now: Offer, product: Product) {
    const { store } = this.#spec;
    const owner = await store.call((client) => client.hget(store.keys.profile(profileId), 'owner'));
    const { item, sessionId } = wish;
    const customerId = owner?.startsWith('c:') ? owner.slice(2) : wish.customerId;
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
}

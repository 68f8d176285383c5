// Sends the alerts of a product's change to its subscribers. This may be interrupted, repeated and run concurrently,
// because an item has the reported state and changes by compare-and-set.

import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { ServiceError } from '../../errors.js';
import { isRedirect } from '../../redis/location.js';
import { LUA } from '../../redis/lua-codes.js';
import type { Store } from '../../redis/store.js';
import { prepareEvent } from '../../wishlist/changes.js';
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
import type { Stamps } from './stamps.js';
import type { Subscribers } from './subscribers.js';

/** Pause after a page of subscribers, as a multiple of the time that it took, so that visits have priority. */
const PAUSE = 6;
const LONGEST_PAUSE_MS = 50;
const ROUNDS = 16;

export interface Change {
  readonly product: Product;
  readonly version: number;
  readonly since: number;
}

export interface NotifierSpec {
  readonly store: Store;
  readonly stamps: Stamps;
  readonly subscribers: Subscribers;
  /** Follows merges. */
  readonly presentOf: (profileId: string) => Promise<string>;
  readonly shopCurrency: string | null;
  /** Called after each alert. */
  readonly onAlert: (type: AlertType) => void;
  /** Called before each subscriber's item is read. Tests stop the process here. */
  readonly onSubscriber?: ((profileId: string) => Promise<void> | void) | undefined;
}

interface ChangedItem {
  readonly field: string;
  readonly variants: readonly Variant[];
}

export class Notifier {
  /** One page at a time: concurrent products take turns, and together take no more from visits than a single one. */
  readonly #turn = pLimit(1);

  constructor(private readonly spec: NotifierSpec) {}

  async notify(change: Change, signal: AbortSignal): Promise<void> {
    if (!change.product.isPublished && change.since === 0) return;
    let failed: unknown;
    for (const [field, variants] of variantsByField(change.product))
      for await (const profiles of this.spec.subscribers.pages(field)) {
        signal.throwIfAborted();
        const settled = await this.#turn(() => this.#notifyPage(profiles, { field, variants }, change));
        // After a failure the other subscribers are notified, and the product stays in the journal.
        for (const one of settled) if (one.status === 'rejected') failed ??= one.reason;
        if (failed instanceof ServiceError && failed.code === 'overloaded') throw failed;
      }
    if (failed !== undefined) throw failed;
  }

  async #notifyPage(profiles: readonly string[], changed: ChangedItem, change: Change) {
    const began = performance.now();
    const settled = await Promise.allSettled(
      profiles.map((profileId) => this.#notifyOne(profileId, changed, change)),
    );
    await sleep(Math.min(PAUSE * (performance.now() - began), LONGEST_PAUSE_MS));
    return settled;
  }

  async #notifyOne(noted: string, changed: ChangedItem, change: Change): Promise<void> {
    const { field } = changed;
    const { store, presentOf, subscribers, onSubscriber } = this.spec;
    let profileId = noted;
    for (let round = 0; round < ROUNDS; round++) {
      await onSubscriber?.(profileId);
      const stored = await store.call((client) => client.hget(store.keys.items(profileId), field));
      // The items of a session that is being merged are still there, but can't be changed.
      if (stored !== null && (await this.#notifyItem({ ...readWish(stored), profileId }, changed, change)))
        return;
      const present = await presentOf(profileId);
      if (present === profileId) {
        if (stored === null) return subscribers.forget([field], profileId);
        continue;
      }
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
  ): Promise<boolean> {
    const { profileId } = wish;
    const [creationLine, , content] = wish.stored.split('\n');
    let item = wish.stored;
    const now = product.isPublished ? offerOf(wish, variants, this.spec.shopCurrency) : undefined;
    const steps = stepsOf(wish, now, version, since);
    if (steps.length === 0) return true;
    const { store, stamps } = this.spec;
    const name = await store.call((client) => client.hget(store.keys.profile(profileId), 'name'));
    const customerId = name?.startsWith('c:') ? name.slice(2) : wish.customerId;
    for (const { secondLine, type } of steps) {
      const alert = type && now && eventOf(type, { ...wish, customerId }, now, product);
      const answer = await stamps.run({ profileId, field, item, secondLine, alert });
      if (answer === LUA.ITEM_CHANGED || isRedirect(answer)) return false;
      if (type !== undefined) this.spec.onAlert(type);
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

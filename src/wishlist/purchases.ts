// What was bought leaves the wishlist. A line with a variant takes that variant along, and the item of its
// product that has none; a line whose product was deleted since takes what has its variant.

import type { Identity } from '../identity/rules.js';
import type { Operation } from '../redis/once.js';
import type { Store } from '../redis/store.js';
import { type Item, itemField, parseItem } from './item.js';
import { type Change, type Outbox, prepareEvent } from './outbox.js';

/** One line of an order; ids are normalised. */
export interface PurchasedLine {
  readonly productId: string | null;
  readonly variantId: string | null;
  readonly quantity: number | null;
  readonly price: string | null;
}

export interface Purchase {
  readonly orderId: string;
  /** Whose it is; null where the order does not say. */
  readonly identity: Identity | null;
  readonly lines: readonly PurchasedLine[];
}

/** Seconds for which a delivery of an order is remembered. */
export const DELIVERY_REMEMBERED_S = 48 * 60 * 60;

export class Purchases {
  readonly #store: Store;
  readonly #outbox: Outbox;

  constructor(store: Store, outbox: Outbox) {
    this.#store = store;
    this.#outbox = outbox;
  }

  /**
   * Removes what was bought, with an event for each item; once under the operation's id, however often called.
   * @throws ServiceError `unavailable`, `overloaded`
   */
  async remove(
    profileId: string,
    identity: Identity,
    { id: operationId, at: when, request }: Operation<Purchase>,
  ): Promise<void> {
    const { keys } = this.#store;
    const boughtAs = indexLines(request.lines);
    await this.#outbox.commit(profileId, async (at): Promise<Change> => {
      const stored = await this.#store.call((client) => client.hvals(keys.items(at)));
      const fields: Change['fields'][number][] = [];
      const events: Change['events'][number][] = [];
      for (const believed of stored) {
        const item = parseItem(believed);
        const bought = boughtAs(item);
        if (bought === undefined) continue;
        const { productId, variantId } = item;
        const payload = { orderId: request.orderId, productId, variantId, ...bought };
        fields.push({ field: itemField(productId, variantId), believed, wanted: '' });
        events.push(
          prepareEvent(
            { type: 'autoRemoveAfterPurchase', origin: 'purchase', profileId: at, identity, payload },
            when,
          ),
        );
      }
      return {
        deed: `purchase ${operationId}`,
        hash: 'items',
        fields,
        events,
        holds: true,
        once: { operationId, seconds: DELIVERY_REMEMBERED_S },
      };
    });
  }
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : a + b;
}

interface Bought {
  readonly quantity: number | null;
  readonly price: string | null;
}

/** How an item was bought: lines that took it along have their quantities added, and the first one's price. */
function indexLines(lines: readonly PurchasedLine[]): (item: Item) => Bought | undefined {
  const byField = new Map<string, Bought>();
  const byVariant = new Map<string, Bought>();
  const add = (index: Map<string, Bought>, key: string, { quantity, price }: PurchasedLine) => {
    const before = index.get(key) ?? { quantity: null, price: null };
    index.set(key, { quantity: sum(before.quantity, quantity), price: before.price ?? price });
  };
  for (const line of lines) {
    const { productId, variantId } = line;
    if (productId !== null) add(byField, itemField(productId, null), line);
    if (variantId === null) continue;
    if (productId !== null) add(byField, itemField(productId, variantId), line);
    else add(byVariant, variantId, line);
  }
  return ({ productId, variantId }) =>
    byField.get(itemField(productId, variantId)) ??
    (variantId === null ? undefined : byVariant.get(variantId));
}

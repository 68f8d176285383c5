// Removes bought items from a wishlist: for each order line, the item of its variant, and the product's item without a
// variant.

import type { OrderLine } from '../events/row.js';
import type { Identity } from '../identity-rules.js';
import type { ItemIndex } from '../profiles/item-index.js';
import type { Location } from '../redis/location.js';
import type { Store } from '../redis/store.js';
import { type Changes, type Made, prepareEvent } from './changes.js';
import { itemField } from './item.js';
import { listItems } from './items.js';

/** Items per script call; an order may name hundreds. */
const PAGE = 50;
/** Shopify's times are whole seconds. */
const SECOND_MS = 1_000;

export type BoughtLine = Pick<OrderLine, 'productId' | 'variantId' | 'quantity' | 'price'>;

export interface BoughtItem {
  readonly productId: string;
  readonly variantId: string | null;
  readonly productHandle: string;
  readonly quantity: number;
  readonly price: string | null;
}

export interface Removal {
  /** Calls `ask` with the location of the wishlist, again after a redirect. */
  readonly change: (ask: (location: Location) => Promise<Made | string>) => Promise<unknown>;
  readonly items: readonly BoughtItem[];
  /** The profile id that the events have. */
  readonly buyer: string;
  readonly identity: Identity;
  readonly orderId: string;
}

export class Purchases {
  constructor(
    private readonly store: Store,
    private readonly changes: Changes,
    private readonly itemIndexes: readonly ItemIndex[],
  ) {}

  /** @param boughtAt milliseconds since 1970; later items stay, because an old order may arrive today */
  async find(
    location: Location,
    lines: readonly BoughtLine[],
    boughtAt: number,
  ): Promise<readonly BoughtItem[] | string> {
    const items = await listItems(this.store, location);
    if (typeof items === 'string') return items;
    return items.flatMap(({ productId, variantId, productHandle, addedAt }) => {
      if (Date.parse(addedAt) >= boughtAt + SECOND_MS) return [];
      const taking = lines.filter(
        (line) => line.productId === productId && (variantId === null || line.variantId === variantId),
      );
      const [first] = taking;
      if (first === undefined) return [];
      const quantity = taking.reduce((sum, line) => sum + line.quantity, 0);
      return [{ productId, variantId, productHandle, quantity, price: first.price }];
    });
  }

  /** Idempotent. @throws ServiceError `unavailable`, `overloaded` */
  async remove({ change, items, buyer, identity, orderId }: Removal): Promise<void> {
    for (let i = 0; i < items.length; i += PAGE) {
      const leaving = items.slice(i, i + PAGE).map(({ productHandle: _, ...bought }) => {
        const event = { type: 'autoRemoveAfterPurchase', origin: 'purchase', profileId: buyer } as const;
        return {
          field: itemField(bought.productId, bought.variantId),
          payload: '',
          event: prepareEvent({ ...event, identity, payload: { orderId, ...bought } }),
        };
      });
      await change(async (location) => {
        const made = await this.changes.make(location, { kind: 'remove', items: leaving });
        if (typeof made === 'string') return made;
        const fields = leaving.map(({ field }) => field);
        for (const index of this.itemIndexes) await index.forget(fields, location.profileId);
        return made;
      });
    }
  }
}

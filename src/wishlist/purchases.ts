// What was bought: each line of an order is told to analysts, and what was on the wishlist leaves it. A line with a
// variant takes that variant along, and the item of its product that has none; a line whose product was deleted since
// takes what has its variant.

import { encodeOrderLine, type OrderHead, type OrderLine } from '../events/row.js';
import type { Identity } from '../identity-rules.js';
import type { Place } from '../redis/place.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { type Changes, isFenced, type Made, prepareEvent } from './changes.js';
import { itemField, parseItem } from './item.js';
import { readItems } from './stored-items.js';
import type { Wishers } from './wishers.js';

export interface Purchase extends OrderHead {
  /** Whose it is; null where the order does not say. */
  readonly identity: Identity | null;
  readonly lines: readonly OrderLine[];
}

/** Seconds for which a delivery of an order is remembered. */
export const DELIVERY_REMEMBERED_S = 48 * 60 * 60;

/** Items that one step removes, so that no script runs for long; an order may name hundreds. */
const REMOVED_AT_ONCE = 50;

export class Purchases {
  readonly #store: Store;
  readonly #changes: Changes;
  readonly #wishers: Wishers | undefined;

  /** @param wishers where product alerts are on */
  constructor(store: Store, changes: Changes, wishers?: Wishers) {
    this.#store = store;
    this.#changes = changes;
    this.#wishers = wishers;
  }

  /**
   * Removes what was bought from a wishlist, with an event for each item; once under the operation, however often called.
   * @param change does something for the visitor whose wishlist it is @param buyer the profile that the events belong to
   * @throws ServiceError `unavailable`, `overloaded`
   */
  async remove(
    change: (ask: (place: Place) => Promise<Made | string>) => Promise<unknown>,
    buyer: string,
    identity: Identity,
    { orderId, lines }: Purchase,
    operation: KeyedOperation,
  ): Promise<void> {
    const targets = targetsOf(lines);
    const parts = Math.ceil(targets.length / REMOVED_AT_ONCE);
    for (let part = 0; part < parts; part++) {
      const mine = targets.slice(part * REMOVED_AT_ONCE, (part + 1) * REMOVED_AT_ONCE);
      const eventOf = ({ productId, variantId, quantity, price }: Bought) => {
        const payload = { orderId, productId, variantId, quantity, price };
        const event = { type: 'autoRemoveAfterPurchase', origin: 'purchase', profileId: buyer } as const;
        return prepareEvent({ ...event, identity, payload }, operation.at);
      };
      await change((place) =>
        operation.doAt<Made | string>(
          place.profileId,
          async (recordId, done) => {
            const bought = done === undefined ? await this.#itemsOf(mine, place) : new Map<string, Bought>();
            if (typeof bought === 'string') return bought;
            const made = await this.#changes.make(place, {
              kind: 'remove',
              items: Array.from(bought, ([field, one]) => ({ field, payload: '', event: eventOf(one) })),
              once: { recordId, seconds: DELIVERY_REMEMBERED_S },
            });
            await this.#wishers?.forget([...bought.keys()], place.profileId);
            return made;
          },
          isFenced,
          [part, parts],
        ),
      );
    }
  }

  /** Fields of items that may be there -> how they were bought; or a redirect. */
  async #itemsOf(targets: readonly Target[], place: Place): Promise<Map<string, Bought> | string> {
    const fields = new Map<string, Bought>();
    const isListed = targets.some(({ productId }) => productId === null);
    const stored = isListed ? await readItems(this.#store, place) : [];
    if (typeof stored === 'string') return stored;
    const items = stored.map(parseItem);
    for (const { productId, variantId, quantity, price } of targets) {
      const taken =
        productId === null
          ? items.filter((item) => item.variantId === variantId)
          : [{ productId, variantId }];
      for (const item of taken) {
        const field = itemField(item.productId, item.variantId);
        if (!fields.has(field))
          fields.set(field, { productId: item.productId, variantId: item.variantId, quantity, price });
      }
    }
    return fields;
  }
}

/**
 * How each line of an order reads for analysts, under a profile. With the same time they are the same rows, which
 * ClickHouse shows once.
 * @param at of the order, milliseconds since 1970
 */
export function rowsOf(
  identity: Identity,
  order: Purchase,
  at: number,
): readonly ((profileId: string) => string)[] {
  return order.lines.flatMap((line, i) =>
    saysNothing(line)
      ? []
      : [(profileId: string) => encodeOrderLine(at, profileId, identity, order, i, line)],
  );
}

function saysNothing({ productId, variantId, price }: OrderLine): boolean {
  return productId === null && variantId === null && price === null;
}

/** A product and variant that an order takes along, and how they were bought. Without a product: all with this variant. */
type Target = Pick<OrderLine, 'productId' | 'variantId' | 'quantity' | 'price'>;

interface Bought extends Target {
  readonly productId: string;
}

/** One target for each product and variant: lines have their quantities added, and the first one's price. */
function targetsOf(lines: readonly OrderLine[]): Target[] {
  const targets = new Map<string, Target>();
  const add = (productId: string | null, variantId: string | null, { quantity, price }: OrderLine) => {
    const key = productId === null ? `variant ${variantId}` : `field ${itemField(productId, variantId)}`;
    const before = targets.get(key);
    targets.set(key, {
      productId,
      variantId,
      quantity: (before?.quantity ?? 0) + quantity,
      price: before?.price ?? price,
    });
  };
  for (const line of lines) {
    const { productId, variantId } = line;
    if (productId !== null) add(productId, null, line);
    if (variantId !== null) add(productId, variantId, line);
  }
  return [...targets.values()];
}

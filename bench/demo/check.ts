// Compares answers with what the visitor's diary says.

import type { Product } from './catalogue.js';
import type { Belongings } from './diary.js';
import type { Listed, Shopper } from './shop.js';

/** Answers that were looked at, and those of them that were not as they should be. */
export class Check {
  checked = 0;
  readonly wrong: string[] = [];

  /** @param what is looked at, in words */
  same(
    who: Shopper,
    what: string,
    expected: string | number | boolean,
    got: string | number | boolean,
  ): void {
    this.checked += 1;
    if (got !== expected) this.wrong.push(`${who.sessionId} ${what}: ${got}, not ${expected}`);
  }

  count(who: Shopper, product: Product, expected: number, got: number): void {
    this.same(who, product.handle, expected, got);
  }

  /** The same items, as they were saved, and the newest first. */
  wishlist(who: Shopper, own: Belongings, got: readonly Listed[]): void {
    const expected = [...own.saved.values()].map(({ product, currency, variantId, quantity, itemId }) =>
      line({
        productId: product.id,
        variantId,
        quantity,
        itemId,
        price: product.prices[currency],
        currencyCode: currency,
      }),
    );
    this.same(who, 'wishlist', expected.sort().join(', '), got.map(line).sort().join(', '));
    const times = got.map(({ addedAt }) => addedAt);
    this.same(who, 'order of the wishlist', [...times].sort().reverse().join(', '), times.join(', '));
  }
}

/** Where a visitor's answers are checked. */
export interface Checks {
  readonly counts: Check;
  readonly wishlists: Check;
}

function line(item: Omit<Listed, 'addedAt'>) {
  const { itemId, productId, variantId, quantity, price, currencyCode } = item;
  return `${quantity} × ${productId}:${variantId ?? ''} at ${price} ${currencyCode} (${itemId})`;
}

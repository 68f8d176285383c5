// What product alerts need, where they are on: the index of wishers, and what tells them.

import type { RightsConfig } from '../../app/settings.js';
import { encodeProduct } from '../../events/row.js';
import type { Redirects } from '../../profiles/redirects.js';
import type { Store } from '../../redis/store.js';
import type { WishlistBatch } from '../../wishlist/wishlist-batch.js';
import type { Product } from './alert.js';
import { Products } from './products.js';
import { Wishers } from './wishers.js';

/** @returns undefined where product alerts are off */
export function openWishers(
  store: Store,
  { PRODUCT_ALERTS }: Pick<RightsConfig, 'PRODUCT_ALERTS'>,
  onClose: (closer: () => Promise<void>) => void,
  onBatch?: (size: number, ms: number) => void,
): Wishers | undefined {
  if (PRODUCT_ALERTS === 'off') return undefined;
  const wishers = new Wishers(store, onBatch);
  onClose(() => wishers.close());
  return wishers;
}

/** Goes on with what was left half done until it is closed. @param onError and `onFuture`: see ProductsSpec @returns undefined without wishers */
export function openProducts(
  store: Store,
  wishlists: WishlistBatch,
  wishers: Wishers | undefined,
  redirects: Redirects,
  shopCurrency: string | null,
  append: (line: string) => Promise<unknown>,
  onError: (error: Error) => void,
  onFuture: () => void,
  onClose: (closer: () => Promise<void>) => void,
  lookMs?: number,
): Products | undefined {
  if (wishers === undefined) return undefined;
  const placeOf = (profileId: string) => redirects.placeOf(profileId);
  const record = (product: Product, version: number) => append(encodeProduct(product, version, shopCurrency));
  const products = new Products({
    ...{ store, wishlists, wishers, placeOf, shopCurrency },
    ...{ record, onError, onFuture, lookMs },
  });
  onClose(products.watch());
  return products;
}

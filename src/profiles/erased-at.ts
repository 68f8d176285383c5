// When profiles were erased. An order from before the erasure must not recreate the visitor.

import type { Store } from '../redis/store.js';

/** Seconds that times of erasures and notes of orders are kept. Shopify may refund an order for a year. */
export const ERASED_AT_S = 400 * 24 * 60 * 60;

/** The last erasure of a profile or of the whole shop, in milliseconds since 1970; 0 if there was none. */
export async function lastErasure(store: Store, profileId: string): Promise<number> {
  const [ofProfile, ofShop] = await Promise.all([
    store.call((client) => client.get(store.keys.erasedAt(profileId))),
    store.call((client) => client.get(store.keys.shopErasedAt)),
  ]);
  return Math.max(Number(ofProfile?.split(' ')[1] ?? 0), Number(ofShop));
}

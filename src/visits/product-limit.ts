// Checks MAX_PRODUCTS before a visit links two ids; lua/visits/countVisits.lua enforces it afterwards.

import { ServiceError } from '../errors.js';
import type { Store } from '../redis/store.js';

/** @returns the room that the visit needs at the customer @throws ServiceError `too_many_products` */
export async function fitsProduct(
  store: Store,
  maxProducts: number,
  customer: string,
  handle: string,
): Promise<{ readonly product: string }> {
  const key = store.keys.counts(customer);
  const [products, isCounted] = await Promise.all([
    store.call((client) => client.hlen(key)),
    store.call((client) => client.hexists(key, handle)),
  ]);
  if (isCounted === 0 && products >= maxProducts) throw new ServiceError('too_many_products');
  return { product: handle };
}

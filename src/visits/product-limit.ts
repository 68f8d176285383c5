// Checks MAX_PRODUCTS before a visit links two ids; lua/visits/countVisits.lua enforces it afterwards.

import { ServiceError } from '../errors.js';
import { readHash } from '../redis/hash.js';
import { countsOf, type Location } from '../redis/location.js';
import type { Store } from '../redis/store.js';

export class ProductLimit {
  constructor(
    private readonly store: Store,
    private readonly maxProducts: number,
  ) {}

  async assertFits(locations: readonly Location[], handle: string): Promise<void> {
    const { keys } = this.store;
    const counts = locations.map((location) => countsOf(keys, location));
    const sizes = await Promise.all(counts.map((key) => this.store.call((client) => client.hlen(key))));
    if (sizes.reduce((sum, size) => sum + size, 0) < this.maxProducts) return;
    const products = new Set<string>();
    for (const key of counts)
      for (const product of (await readHash(this.store, key)).keys()) products.add(product);
    // If the identity has been linked since, this field has the link.
    products.delete('');
    if (!products.has(handle) && products.size >= this.maxProducts)
      throw new ServiceError('too_many_products');
  }
}

// MAX_PRODUCTS, asked before a visit links two ids: lua/visits.lua refuses what is over the limit, but the link would
// have been made by then. Only a request that races another one for the last product may still link first.

import { ServiceError } from '../errors.js';
import type { Place } from '../redis/at-profile.js';
import type { RedisClient } from '../redis/client.js';
import type { Store } from '../redis/store.js';

export class ProductLimit {
  readonly #store: Store;
  readonly #maxProducts: number;

  constructor(store: Store, maxProducts: number) {
    this.#store = store;
    this.#maxProducts = maxProducts;
  }

  /** @param places whose counts are one profile's afterwards @throws ServiceError `too_many_products`, `unavailable` */
  async assertFits(places: readonly Place[], handle: string): Promise<void> {
    const { keys } = this.#store;
    const counts = places.map(({ isRoom, profileId }) =>
      isRoom ? keys.room(profileId) : keys.door(profileId),
    );
    const sizes = await Promise.all(counts.map((key) => this.#read(0, (client) => client.hlen(key))));
    if (sizes.reduce((sum, size) => sum + size, 0) < this.#maxProducts) return;
    const products = new Set<string>();
    for (const key of counts)
      for (const product of await this.#read([], (client) => client.hkeys(key))) products.add(product);
    // Of a door whose identity was linked meanwhile.
    products.delete('');
    if (!products.has(handle) && products.size >= this.#maxProducts)
      throw new ServiceError('too_many_products');
  }

  /** @param none what a door has whose identity was linked meanwhile: it is no hash then */
  async #read<T>(none: T, command: (client: RedisClient) => Promise<T>): Promise<T> {
    try {
      return await this.#store.call(command);
    } catch (error) {
      if ((error as Error).message.startsWith('WRONGTYPE')) return none;
      throw error;
    }
  }
}

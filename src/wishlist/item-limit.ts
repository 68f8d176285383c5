// Checks MAX_ITEMS and MAX_ITEMS_BYTES before a request links ids or stores facts. Afterwards
// lua/wishlist/changeItems.lua enforces them.

import { ServiceError } from '../errors.js';
import { newOrderedId } from '../events/event-id.js';
import type { Location } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { itemField, newItem } from './item.js';
import type { ItemContent } from './item-fields.js';
import type { ItemLimits } from './wishlist-batch.js';

const SIZES = loadScript<(string | number)[]>('wishlist/readItemSizes');

export class ItemLimit {
  constructor(
    private readonly store: Store,
    private readonly limits: ItemLimits,
  ) {}

  /** Call before the change: on a cluster, a new visitor is created before lua/wishlist/changeItems.lua may refuse. */
  assertFitsAlone(content: ItemContent): void {
    const { maxBytes } = this.limits;
    if (maxBytes < MAX_ITEM_BYTES && storedBytes(content) > maxBytes)
      throw new ServiceError('too_many_items');
  }

  async assertFits(locations: readonly Location[], content: ItemContent): Promise<void> {
    const { maxItems, maxBytes } = this.limits;
    const { keys } = this.store;
    const bytes = storedBytes(content);
    const known = await Promise.all(
      locations.map(async ({ profileId }) => {
        const [items, sum] = await Promise.all([
          this.store.call((client) => client.hlen(keys.items(profileId))),
          this.store.call((client) => client.hget(keys.profile(profileId), 'itemBytes')),
        ]);
        return { items, sum: sum === null && items > 0 ? Number.POSITIVE_INFINITY : Number(sum) };
      }),
    );
    const items = known.reduce((all, one) => all + one.items, 0);
    const sum = known.reduce((all, one) => all + one.sum, 0);
    if (items < maxItems && sum + bytes <= maxBytes) return;
    await this.#assertExactly(locations, itemField(content.productId, content.variantId), bytes);
  }

  /** Checks the merged profile like `store` of lua/wishlist/changeItems.lua. */
  async #assertExactly(locations: readonly Location[], field: string, bytes: number): Promise<void> {
    const { maxItems, maxBytes } = this.limits;
    const { keys } = this.store;
    const sizes = new Map<string, number>();
    for (const { profileId } of locations) {
      const read = await this.store.run(SIZES, [keys.items(profileId)], []);
      for (let i = 0; i < read.length; i += 2)
        if (!sizes.has(read[i] as string)) sizes.set(read[i] as string, read[i + 1] as number);
    }
    const there = sizes.get(field);
    const isOver = there === undefined && sizes.size >= maxItems;
    const sum = [...sizes.values()].reduce((all, one) => all + one, 0);
    const gained = bytes - (there ?? 0);
    if (isOver || (gained > 0 && sum + gained > maxBytes)) throw new ServiceError('too_many_items');
  }
}

/** No item is larger: the largest body, with six bytes of JSON per character. */
const MAX_ITEM_BYTES = 6 * 64 * 1024 + 1024;

function storedBytes(content: ItemContent): number {
  const now = Date.now();
  return Buffer.byteLength(newItem(newOrderedId(now), JSON.stringify(content), now).join('\n'));
}

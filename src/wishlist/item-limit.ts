// Checks MAX_ITEMS and MAX_ITEMS_BYTES before a request links ids or stores facts. Afterwards
// lua/wishlist/changeItems.lua enforces them.

import { ServiceError } from '../errors.js';
import { newOrderedId } from '../events/event-id.js';
import type { ItemContent } from '../item-fields.js';
import type { Store } from '../redis/store.js';
import { itemField, newItem } from './item.js';
import type { ItemLimits } from './wishlist-batch.js';

/** @returns the room that the item needs in the profile @throws ServiceError `too_many_items` */
export async function assertItemFits(
  store: Store,
  { maxItems, maxBytes }: ItemLimits,
  profileId: string,
  content: ItemContent,
): Promise<{ readonly item: string; readonly itemBytes: number }> {
  const { keys } = store;
  const field = itemField(content.productId, content.variantId);
  const [items, held, bytes] = await Promise.all([
    store.call((client) => client.hlen(keys.items(profileId))),
    store.call((client) => client.hstrlen(keys.items(profileId), field)),
    store.call((client) => client.hget(keys.profile(profileId), 'itemBytes')),
  ]);
  const size = storedBytes(content);
  const gained = Math.max(0, size - held);
  const isOver = held === 0 && items >= maxItems;
  if (isOver || (gained > 0 && Number(bytes) + gained > maxBytes)) throw new ServiceError('too_many_items');
  return { item: field, itemBytes: size };
}

function storedBytes(content: ItemContent): number {
  const now = Date.now();
  return Buffer.byteLength(newItem(newOrderedId(now), JSON.stringify(content), now).join('\n'));
}

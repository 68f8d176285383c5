// Checks which products are on a wishlist.

import type { Location } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { itemField, newestFirst } from './item.js';

const CHECK_ITEMS = loadScript<string | [next: string, ...found: string[]]>('wishlist/checkItems');
/** Approximate number of items. */
const PAGE = 100;

/** If `variantId` is null, any variant is meant. */
export interface ProductName {
  readonly productId: string;
  readonly variantId: string | null;
}

export interface CheckedItem extends ProductName {
  readonly itemId: string | null;
}

/** @returns an entry per product, in order; for any variant, the item without a variant, or else the newest one */
export async function checkItems(
  store: Store,
  location: Location,
  products: readonly ProductName[],
): Promise<readonly CheckedItem[] | string> {
  const exact = new Set<string>();
  const any = new Set<string>();
  for (const { productId, variantId } of products)
    (variantId === null ? any : exact).add(itemField(productId, variantId));
  const found = await readFields(store, location, [...exact], [...any]);
  if (typeof found === 'string') return found;
  const newest = new Map<string, FoundItem>();
  for (const item of [...found.values()].sort(newestFirst)) {
    const product = item.field.slice(0, item.field.indexOf(':') + 1);
    if (!newest.has(product)) newest.set(product, item);
  }
  return products.map(({ productId, variantId }) => {
    const field = itemField(productId, variantId);
    const item = found.get(field) ?? (variantId === null ? newest.get(field) : undefined);
    if (item === undefined) return { productId, variantId, itemId: null };
    return {
      productId,
      variantId: item.field.slice(item.field.indexOf(':') + 1) || null,
      itemId: item.itemId,
    };
  });
}

interface FoundItem {
  readonly field: string;
  readonly itemId: string;
  readonly addedAt: string;
}

async function readFields(
  store: Store,
  location: Location,
  exact: readonly string[],
  any: readonly string[],
): Promise<ReadonlyMap<string, FoundItem> | string> {
  const { keys } = store;
  const { profileId, session, linkId } = location;
  const touched = [keys.profile(profileId), keys.items(profileId)];
  const found = new Map<string, FoundItem>();
  let cursor = any.length === 0 ? '' : '0';
  let fields = exact;
  do {
    const args = [cursor, PAGE, session, linkId, fields.length, ...fields, ...any];
    const page = await store.run(CHECK_ITEMS, touched, args);
    if (typeof page === 'string') return page;
    const [next, ...pairs] = page;
    for (let i = 0; i < pairs.length; i += 2) {
      const field = pairs[i] as string;
      const [itemId = '', addedAt = ''] = (pairs[i + 1] as string).split(' ');
      found.set(field, { field, itemId, addedAt });
    }
    cursor = next;
    fields = [];
  } while (cursor !== '0');
  return found;
}

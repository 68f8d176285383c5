// Reads a page of a wishlist, newest first. Items of other pages are read without their content.

import { createHash } from 'node:crypto';
import type { Location } from '../redis/location.js';
import type { Store } from '../redis/store.js';
import { type Item, newestFirst, parseItem } from './item.js';
import { readItemHeads } from './stored-items.js';

const PAGE_SIZE = 48;

export interface ItemPage {
  readonly items: readonly Item[];
  readonly total: number;
  readonly number: number;
  readonly pages: number;
  /** Differs after each change of the list. */
  readonly version: string;
  /** ISO 8601; '' if the list is empty. */
  readonly changedAt: string;
}

export async function readItemPage(
  store: Store,
  location: Location,
  wanted: number,
): Promise<ItemPage | string> {
  const stored = await readItemHeads(store, location);
  if (typeof stored === 'string') return stored;
  const heads = Array.from(stored, ([field, lines]) => {
    const [itemId = '', addedAt = '', updatedAt = ''] = lines.split(/[ \n]/, 3);
    return { field, itemId, addedAt, updatedAt };
  }).sort(newestFirst);
  const pages = Math.max(1, Math.ceil(heads.length / PAGE_SIZE));
  const number = Math.min(wanted, pages);
  const fields = heads.slice((number - 1) * PAGE_SIZE, number * PAGE_SIZE).map(({ field }) => field);
  const key = store.keys.items(location.profileId);
  const found = fields.length === 0 ? [] : await store.call((client) => client.hmget(key, ...fields));
  const version = createHash('sha256');
  for (const { itemId, updatedAt } of heads) version.update(`${itemId} ${updatedAt}\n`);
  return {
    items: found.filter((item): item is string => item !== null).map(parseItem),
    total: heads.length,
    number,
    pages,
    version: version.digest('base64url').slice(0, 22),
    changedAt:
      heads
        .map(({ updatedAt }) => updatedAt)
        .sort()
        .at(-1) ?? '',
  };
}

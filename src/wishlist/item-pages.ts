// A page of a wishlist, newest first. Of the items that are not on it only the first two lines leave Redis: their order and
// their last changes make the page's place and the list's version.

import { createHash } from 'node:crypto';
import type { Place } from '../redis/place.js';
import type { Store } from '../redis/store.js';
import { type Item, newestFirst, parseItem } from './item.js';
import { readItemHeads } from './stored-items.js';

/** Items of a page. */
const PAGE_SIZE = 48;

export interface ItemPage {
  readonly items: readonly Item[];
  /** Items of the list. */
  readonly total: number;
  /** The page's, from 1, and how many there are: 1 of an empty list. */
  readonly number: number;
  readonly pages: number;
  /** Another one whenever an item is added, changed or removed. */
  readonly version: string;
  /** The last change of an item that is on the list, ISO 8601; empty for an empty list. */
  readonly changedAt: string;
}

/** @param wanted from 1; beyond the last page it is the last @returns a redirect if the visitor is elsewhere @throws ServiceError `unavailable` */
export async function readItemPage(store: Store, place: Place, wanted: number): Promise<ItemPage | string> {
  const stored = await readItemHeads(store, place);
  if (typeof stored === 'string') return stored;
  const heads = Array.from(stored, ([field, lines]) => {
    const [itemId = '', addedAt = '', updatedAt = ''] = lines.split(/[ \n]/, 3);
    return { field, itemId, addedAt, updatedAt };
  }).sort(newestFirst);
  const pages = Math.max(1, Math.ceil(heads.length / PAGE_SIZE));
  const number = Math.min(wanted, pages);
  const fields = heads.slice((number - 1) * PAGE_SIZE, number * PAGE_SIZE).map(({ field }) => field);
  const key = store.keys.items(place.profileId);
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

// Reads a profile's items in pages.

import { checkedKeys, type Place } from '../redis/place.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ITEMS = loadScript<string | [next: string, ...fields: string[]]>('wishlist/readItems');
/** Approximate. */
const PAGE = 100;

export async function readItems(store: Store, place: Place): Promise<readonly string[] | string> {
  const stored = await scanItems(store, place, '');
  return typeof stored === 'string' ? stored : [...stored.values()];
}

/** The first two lines of items, by field. */
export function readItemHeads(store: Store, place: Place): Promise<ReadonlyMap<string, string> | string> {
  return scanItems(store, place, '1');
}

async function scanItems(
  store: Store,
  place: Place,
  headsOnly: '' | '1',
): Promise<ReadonlyMap<string, string> | string> {
  const { keys } = store;
  const { profileId, link, generation } = place;
  const touched = [keys.profile(profileId), keys.items(profileId), ...checkedKeys(keys, place)];
  const stored = new Map<string, string>();
  let cursor = '0';
  do {
    const page = await store.run(ITEMS, touched, [cursor, PAGE, link, generation, headsOnly]);
    if (typeof page === 'string') return page;
    const [next, ...fields] = page;
    for (let i = 0; i < fields.length; i += 2) stored.set(fields[i] as string, fields[i + 1] as string);
    cursor = next;
  } while (cursor !== '0');
  return stored;
}

// Reads a profile's items in pages.

import type { Location } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ITEMS = loadScript<string | [next: string, ...fields: string[]]>('wishlist/readItems');
/** Approximate number of items. */
const PAGE = 100;

export async function readItems(store: Store, location: Location): Promise<readonly string[] | string> {
  const stored = await scanItems(store, location, '');
  return typeof stored === 'string' ? stored : [...stored.values()];
}

export function readItemHeads(
  store: Store,
  location: Location,
): Promise<ReadonlyMap<string, string> | string> {
  return scanItems(store, location, '1');
}

async function scanItems(
  store: Store,
  location: Location,
  headsOnly: '' | '1',
): Promise<ReadonlyMap<string, string> | string> {
  const { keys } = store;
  const { profileId, session, linkId } = location;
  const touched = [keys.profile(profileId), keys.items(profileId)];
  const stored = new Map<string, string>();
  let cursor = '0';
  do {
    const page = await store.run(ITEMS, touched, [cursor, PAGE, session, linkId, headsOnly]);
    if (typeof page === 'string') return page;
    const [next, ...fields] = page;
    for (let i = 0; i < fields.length; i += 2) stored.set(fields[i] as string, fields[i + 1] as string);
    cursor = next;
  } while (cursor !== '0');
  return stored;
}

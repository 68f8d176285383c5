// Reads a profile's items in pages, and counts them.

import type { Location } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ITEMS = loadScript<string | [next: string, ...fields: string[]]>('wishlist/readItems');
const COUNT = loadScript<string | number>('wishlist/countItems');
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

/** Costs the same for a list of any length. */
export function countItems(store: Store, location: Location): Promise<number | string> {
  return store.run(COUNT, touchedKeys(store, location), [location.session, location.linkId]);
}

function touchedKeys({ keys }: Store, { profileId }: Location): string[] {
  return [keys.profile(profileId), keys.items(profileId)];
}

async function scanItems(
  store: Store,
  location: Location,
  headsOnly: '' | '1',
): Promise<ReadonlyMap<string, string> | string> {
  const { session, linkId } = location;
  const touched = touchedKeys(store, location);
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

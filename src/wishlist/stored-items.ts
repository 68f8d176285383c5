// Reads a profile's items in pages, and counts them.

import type { Location } from '../redis/location.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const READ = loadScript<string | number | [next: string, ...fields: string[]]>('wishlist/readItems');
/** Approximate number of items. */
const PAGE = 100;

export async function readItems(store: Store, location: Location): Promise<readonly string[] | string> {
  const stored = await scanItems(store, location, 'items');
  return typeof stored === 'string' ? stored : [...stored.values()];
}

export function readItemHeads(
  store: Store,
  location: Location,
): Promise<ReadonlyMap<string, string> | string> {
  return scanItems(store, location, 'heads');
}

/** Costs the same for a list of any length. */
export async function countItems(store: Store, location: Location): Promise<number | string> {
  return (await read(store, location, '0', 'count')) as number | string;
}

function read(store: Store, location: Location, cursor: string, what: 'items' | 'heads' | 'count') {
  const { profileId, session, linkId } = location;
  const touched = [store.keys.profile(profileId), store.keys.items(profileId)];
  return store.run(READ, touched, [cursor, PAGE, session, linkId, what]);
}

async function scanItems(
  store: Store,
  location: Location,
  what: 'items' | 'heads',
): Promise<ReadonlyMap<string, string> | string> {
  const stored = new Map<string, string>();
  let cursor = '0';
  do {
    const page = await read(store, location, cursor, what);
    if (!Array.isArray(page)) return page as string;
    const [next, ...fields] = page;
    for (let i = 0; i < fields.length; i += 2) stored.set(fields[i] as string, fields[i + 1] as string);
    cursor = next;
  } while (cursor !== '0');
  return stored;
}

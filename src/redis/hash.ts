// Reads a hash in pages of bounded size: it may be large.

import type { Store } from './store.js';

const PAGE = 250;

/** Field -> value. Fields that are there from the first call to the last are in it. @throws ServiceError `unavailable` */
export async function readHash(store: Store, key: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  let cursor = '0';
  do {
    const from = cursor;
    const [next, fields] = await store.call((client) => client.hscan(key, from, 'COUNT', PAGE));
    cursor = next;
    for (let i = 0; i < fields.length; i += 2) found.set(fields[i] as string, fields[i + 1] as string);
  } while (cursor !== '0');
  return found;
}

// Hashes of records: read in pages of bounded size, as one may be large, and changed by compare-and-set.

import { loadScript } from './scripts.js';
import type { Store } from './store.js';

const CHANGE = loadScript<number>('hash-change');
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

/**
 * @param before what the field was; empty: it is new @param after empty: it is removed @param most fields that there may be
 * @returns 1; 0 or LUA.TOO_MANY, and nothing was done, where it is something else, or there are too many
 * @throws ServiceError `unavailable`
 */
export function changeField(
  store: Store,
  key: string,
  field: string,
  before: string,
  after: string,
  most = Number.MAX_SAFE_INTEGER,
): Promise<number> {
  return store.change(CHANGE, [key], [field, before, after, most]);
}

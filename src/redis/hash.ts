// Reads a hash in pages, and changes fields by compare-and-set.

import { loadScript } from './scripts.js';
import type { Store } from './store.js';

const CHANGE = loadScript<number>('redis/changeField');
const PAGE = 250;

/** Yields at least the fields that exist during the whole read. */
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

export interface FieldChange {
  readonly key: string;
  readonly field: string;
  /** '' if absent. */
  readonly before: string;
  /** '' removes the field. */
  readonly after: string;
  readonly most?: number;
  /** True to remove the whole hash with the field. */
  readonly removesHash?: boolean;
}

/** See lua/redis/changeField.lua. */
export function changeField(store: Store, change: FieldChange): Promise<number> {
  const { key, field, before, after, most = Number.MAX_SAFE_INTEGER, removesHash = false } = change;
  return store.change(CHANGE, [key], [field, before, after, most, removesHash ? 1 : 0]);
}

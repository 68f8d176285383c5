// Reads a hash in pages, and changes fields by compare-and-set.

import { loadScript } from './scripts.js';
import type { Store } from './store.js';

const CHANGE = loadScript<number>('redis/changeField');
const PAGE = 250;

/** A reply of HSCAN. */
export type HashPage = readonly [cursor: string, fields: readonly string[]];

/** Returns at least the fields that exist during the whole read. @param first the first page, if a script has read it */
export async function readHash(store: Store, key: string, first?: HashPage): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const read = (cursor: string): Promise<HashPage> =>
    store.call((client) => client.hscan(key, cursor, 'COUNT', PAGE));
  let [cursor, fields] = first ?? (await read('0'));
  for (;;) {
    for (const [name, value] of pairsOf(fields)) found.set(name, value);
    if (cursor === '0') return found;
    [cursor, fields] = await read(cursor);
  }
}

export function pairsOf(fields: readonly string[]): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i < fields.length; i += 2) pairs.push([fields[i] as string, fields[i + 1] as string]);
  return pairs;
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

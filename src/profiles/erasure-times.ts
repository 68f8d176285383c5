// When identities were erased. An order that came before must not bring them back, so a time outlives the notes of
// those orders (src/wishlist/order-notes.ts). Digests are keyed: nobody can read who was erased.

import { createHmac } from 'node:crypto';
import { isIdentityName } from '../clickhouse/erased-rows.js';
import { EVERY_PROFILE } from '../identity-rules.js';
import type { Store } from '../redis/store.js';
import { writeAtMaxmemory } from '../redis/write.js';
import { REMEMBERED_S } from '../wishlist/order-notes.js';

/** @param names others than identities and EVERY_PROFILE are skipped @param at by the clocks of `serve`, milliseconds */
export async function rememberErasures(store: Store, names: readonly string[], at: number): Promise<void> {
  const identities = names.filter((name) => name === EVERY_PROFILE || isIdentityName(name));
  const set = ['SET', at, 'EX', REMEMBERED_S] as const;
  await Promise.all(identities.map((name) => writeAtMaxmemory(store, keyOf(store, name), set)));
}

/** The last erasure of an identity or of the whole shop, in milliseconds since 1970; 0 if there was none. */
export async function lastErasure(store: Store, name: string): Promise<number> {
  const keys = [name, EVERY_PROFILE].map((one) => keyOf(store, one));
  const times = await Promise.all(keys.map((key) => store.call((client) => client.get(key))));
  return Math.max(...times.map(Number));
}

function keyOf({ keys, deployment }: Store, name: string): string {
  return keys.erasureTime(
    createHmac('sha256', deployment.salt).update(`erased\n${name}`).digest('base64url'),
  );
}

// Single write commands, which a node refuses after the caller's deadline.

import { loadScript, type ScriptArg, withFlags } from './scripts.js';
import type { Store } from './store.js';

type Write = readonly [command: 'HSET' | 'SET' | 'ZADD' | 'ZREM' | 'ZREMRANGEBYRANK', ...args: ScriptArg[]];

const WRITE = loadScript<string | number | null>('redis/writeKey');
const WRITE_AT_MAXMEMORY = withFlags(WRITE, 'allow-oom');
const KEYS_PER_CALL = 100;

/** @param write idempotent */
export function writeKey(store: Store, key: string, write: Write) {
  return store.change(WRITE, [key], write);
}

/** Runs at `maxmemory`, for erasures and merges, which free memory. */
export function writeAtMaxmemory(store: Store, key: string, write: Write) {
  return store.change(WRITE_AT_MAXMEMORY, [key], write);
}

/**
 * Up to KEYS_PER_CALL keys go in one step, so that no write finds a visitor half erased.
 *
 * @param names of one slot
 */
export async function removeKeys(store: Store, names: readonly string[]): Promise<void> {
  for (let i = 0; i < names.length; i += KEYS_PER_CALL)
    await store.change(WRITE, names.slice(i, i + KEYS_PER_CALL), ['UNLINK']);
}

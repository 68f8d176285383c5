// Removes keys, a bounded number per call.

import { loadScript } from './scripts.js';
import type { Store } from './store.js';

const PUT = loadScript('redis/putKey');
const KEYS_PER_CALL = 100;

export async function removeKeys(store: Store, names: readonly string[]): Promise<void> {
  for (let i = 0; i < names.length; i += KEYS_PER_CALL)
    await store.change(PUT, names.slice(i, i + KEYS_PER_CALL), ['']);
}

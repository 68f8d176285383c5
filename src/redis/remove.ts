// Removes keys, a bounded number in one step.

import { loadScript } from './scripts.js';
import type { Store } from './store.js';

const PUT = loadScript('put');
/** Keys that one call takes. */
const AT_ONCE = 100;

/** @param names of keys in one slot @throws ServiceError `unavailable` */
export async function removeKeys(store: Store, names: readonly string[]): Promise<void> {
  for (let i = 0; i < names.length; i += AT_ONCE) await store.change(PUT, names.slice(i, i + AT_ONCE), ['']);
}

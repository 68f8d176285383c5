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

/** Removes request records. @param list key of their digests, see Keys.requests @throws ServiceError `unavailable` */
export async function removeRequests(store: Store, list: string): Promise<void> {
  for (let from = 0, isMore = true; isMore; from += AT_ONCE) {
    const digests = await store.call((client) =>
      client.zrange(list, String(from), String(from + AT_ONCE - 1)),
    );
    await Promise.all(digests.map((digest) => removeKeys(store, [store.keys.request(digest)])));
    isMore = digests.length === AT_ONCE;
  }
}

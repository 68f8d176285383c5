// A store of the program, opened as in a process.

import { Store, type StoreOptions } from '../../src/redis/store.js';
import type { Scope, Urls } from './redis.js';

/** @throws Error with the reason why a master is not up */
export async function ping(store: Store): Promise<void> {
  for (const { reason } of await store.check()) if (reason !== undefined) throw new Error(reason);
}

/** Open until `t` ends. Only `onError` gets the errors of its connections. */
export async function openStore(t: Scope, { urls }: Urls, options: Partial<StoreOptions> = {}) {
  const store = await Store.open({
    ...{ urls, name: 'test', timeoutMs: 20_000, keyPrefix: 't', onError: () => {} },
    ...options,
  });
  t.teardown(() => store.close());
  return store;
}

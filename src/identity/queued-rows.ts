// Queues rows for erasure from what waits in streams and from ClickHouse; src/flush/row-eraser.ts erases them.

import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ERASURES = loadScript('erasures');
/** Names that one call takes. */
const AT_ONCE = 100;

/**
 * @param what profile ids, EVERY_PROFILE, and identity names: rows that name them
 * @param until of the rows, milliseconds since 1970
 * @throws ServiceError `unavailable`
 */
export async function queueRows(store: Store, what: readonly string[], until = Date.now()): Promise<void> {
  for (let i = 0; i < what.length; i += AT_ONCE) {
    const args = [until, Date.now() - until, ...what.slice(i, i + AT_ONCE)];
    await store.change(ERASURES, [store.keys.erasures], args);
  }
}

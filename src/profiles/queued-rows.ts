// Queues rows for erasure by src/flush/row-eraser.ts.

import { setTimeout as sleep } from 'node:timers/promises';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ERASURES = loadScript('profiles/queueErasures');
const PAGE_SIZE = 100;
/** Limits the wait if this server's clock is far behind Redis's. */
const MAX_WAIT_MS = 100;

/**
 * @param what profile ids, EVERY_PROFILE, and identity names @param at milliseconds of Redis's clock: later rows stay;
 * default now
 */
export async function queueRows(store: Store, what: readonly string[], at?: number): Promise<void> {
  const now = Math.ceil(store.timeAt(undefined, performance.now()));
  const ageMs = Math.max(0, now - (at ?? now));
  // If this server's clock is behind, other servers' rows have later times.
  const until = Math.max(now, Date.now()) - ageMs;
  for (let i = 0; i < what.length; i += PAGE_SIZE) {
    const args = [until, ageMs, ...what.slice(i, i + PAGE_SIZE)];
    await store.change(ERASURES, [store.keys.erasures], args);
  }
  // A visitor who returns after this call has later rows, which stay.
  const limit = performance.now() + MAX_WAIT_MS;
  while (Date.now() <= until && performance.now() < limit) await sleep(1);
}

// Queues rows for erasure by src/flush/row-eraser.ts.

import { setTimeout as sleep } from 'node:timers/promises';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const ERASURES = loadScript('profiles/queueErasures');
const PAGE_SIZE = 100;
const MAX_WAIT_MS = 100;

/**
 * @param what profile ids, EVERY_PROFILE, and identity names @param at milliseconds of Redis's clock: later rows stay;
 * default now
 */
export async function queueRows(store: Store, what: readonly string[], at?: number): Promise<void> {
  const now = Math.ceil(store.now);
  const ageMs = Math.max(0, now - (at ?? now));
  // If this server's clock is behind, other servers' rows have later times.
  const until = Math.max(now, Date.now()) - ageMs;
  for (let i = 0; i < what.length; i += PAGE_SIZE) {
    const args = [until, ageMs, ...what.slice(i, i + PAGE_SIZE)];
    await store.change(ERASURES, [store.keys.erasures], args);
  }
}

/** Waits until new rows are later than those queued before, unless this server's clock is behind by MAX_WAIT_MS. */
export async function untilLaterRows(store: Store): Promise<void> {
  const deadline = performance.now() + MAX_WAIT_MS;
  const queued = Math.max(Math.ceil(store.now), Date.now());
  while (Date.now() <= queued && performance.now() < deadline) await sleep(1);
}

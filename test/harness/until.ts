// Polls for a condition. The deadline gives a failure a name, so that no test hangs.

import { setTimeout as sleep } from 'node:timers/promises';

/** Probes become rarer: one of ClickHouse takes 10 ms of CPU, and tests run side by side. */
const MOST_MS = 250;

/** Polls until `probe` returns a value, and resolves to it. @throws if it takes more than `withinMs` */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  withinMs = 60_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (let waitMs = 10; ; waitMs = Math.min(waitMs * 1.5, MOST_MS)) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(waitMs);
  }
}

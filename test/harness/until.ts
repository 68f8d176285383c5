// Waiting for something that the test can only look at: with a deadline, so that what never comes is a failure
// with a name and not a test that hangs.

import { setTimeout as sleep } from 'node:timers/promises';

/** The most that anything waits: `make mutate` has it, whose tests mostly wait for what does not come. */
const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? Number.POSITIVE_INFINITY);

/** Polls until `probe` gives something, and resolves to it. @throws where it takes more than `withinMs` */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  withinMs = 60_000,
): Promise<T> {
  const waitsMs = Math.min(withinMs, PATIENCE_MS);
  const deadline = performance.now() + waitsMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`not within ${waitsMs} ms: ${what}`);
    await sleep(20);
  }
}

// Waiting: between attempts, longer each time, capped, and not all flushers at the same moment.

import { setTimeout as sleep } from 'node:timers/promises';

const FIRST_MS = 100;
const LONGEST_MS = 10_000;

/** Milliseconds before the next attempt, after `failures` (from 1 up) in a row. */
export function backoffMs(failures: number, random: () => number = Math.random): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** (failures - 1));
  return most * (0.5 + random() / 2);
}

/** Resolves after so many milliseconds, or at once when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // Aborted. The caller looks at the signal next.
  }
}

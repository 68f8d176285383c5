// Exponential back-off with a limit and jitter.

import { setTimeout as sleep } from 'node:timers/promises';

export interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
}

const USUAL: Backoff = { firstMs: 100, longestMs: 10_000 };

/** @returns milliseconds: between half and all of a time that doubles with each consecutive failure */
export function backoffMs(
  failures: number,
  { firstMs, longestMs }: Backoff = USUAL,
  random: () => number = Math.random,
): number {
  const most = Math.min(longestMs, firstMs * 2 ** Math.max(failures - 1, 0));
  return most * (0.5 + random() / 2);
}

export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch {
    // The pause was aborted. The caller checks the signal.
  }
}

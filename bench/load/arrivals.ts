// Random arrivals at a fixed rate (a Poisson process), as from many independent visitors. For each arrival the caller
// sends a request, or counts it as turned away; it never delays the next arrival.
//
// Node's timers have a resolution of a millisecond, and requests here are some tens of microseconds apart. So each
// turn of the event loop reports the arrivals that are due and then sleeps until the next one. It does not spin, since
// the server under test needs the processor.

import type { Random } from '../demo/random.js';

/** Longest sleep. It delays the reading of answers, and timers, by at most as much. */
const LONGEST_SLEEP_MS = 0.05;

export interface Arrivals {
  /** Per second. */
  readonly rate: number;
  /** Time of the first possible arrival and end of arrivals, by performance.now(). */
  readonly begin: number;
  readonly end: number;
  readonly random: Random;
  /** @param intended when it was due */
  readonly arrive: (intended: number) => void;
  /** Called in each turn after the end of arrivals; true ends the wait. */
  readonly isOver: (now: number) => boolean;
}

/** Resolves once `isOver` is true after the end of arrivals. */
export function runArrivals({ rate, begin, end, random, arrive, isOver }: Arrivals): Promise<void> {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const gap = () => (-Math.log(1 - random.next()) * 1_000) / rate;
  let next = begin + gap();
  return new Promise((resolve) => {
    const turn = () => {
      const now = performance.now();
      for (; next <= now && next < end; next += gap()) arrive(next);
      if (next >= end && isOver(now)) {
        resolve();
        return;
      }
      const rest = Math.min(next - performance.now(), LONGEST_SLEEP_MS);
      if (rest > 0.005) Atomics.wait(cell, 0, 0, rest);
      setImmediate(turn);
    };
    turn();
  });
}

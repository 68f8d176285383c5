// Arrivals at a rate, by chance (Poisson), as from many visitors who know nothing of each other: whoever is told of one
// sends a request or counts it as turned away, but never makes the next one wait.
//
// A timer of Node's is as fine as a millisecond, and requests here are some tens of microseconds apart. So every
// turn of the event loop tells of what is due and then sleeps until the next is, if that is not at once. It does not
// spin: the processor is wanted by the server under test.

import type { Random } from '../demo/random.js';

/** Longest sleep: an answer that comes in the meantime is seen so much later. */
const LONGEST_SLEEP_MS = 0.05;

export interface Arrivals {
  /** Per second. */
  readonly rate: number;
  /** When the first may come and when no more do, as performance.now() tells. */
  readonly begin: number;
  readonly end: number;
  readonly random: Random;
  /** @param intended when it was due */
  readonly arrive: (intended: number) => void;
  /** Asked turn after turn when all have arrived: whether there is nothing more to wait for. */
  readonly isOver: (now: number) => boolean;
}

/** Resolves when it is over. Nobody else's timers come late by more than the longest sleep. */
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

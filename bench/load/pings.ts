// A client that sends PING to Redis every millisecond, on a connection of its own: how long Redis's pauses are for its
// clients. That includes the time in which this client waits for a core, so it is an upper bound for Redis's own
// figures (slow-redis.ts).

import type { Redis } from 'ioredis';
import { percentile } from '../statistics.js';

const EVERY_MS = 1;

export interface Pings {
  readonly sent: number;
  /** 99.9th percentile, and the longest, milliseconds. */
  readonly p999Ms: number;
  readonly longestMs: number;
}

/** Pings from now on; the function that comes back ends it. */
export async function startPings(beside: Redis): Promise<() => Promise<Pings>> {
  const redis = beside.duplicate();
  await redis.ping();
  const took: number[] = [];
  let isOver = false;
  const run = async () => {
    while (!isOver) {
      const sent = performance.now();
      await redis.ping();
      took.push(performance.now() - sent);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  };
  const running = run();
  return async () => {
    isOver = true;
    await running;
    redis.disconnect();
    const sorted = took.sort((a, b) => a - b);
    return { sent: took.length, p999Ms: percentile(sorted, 0.999), longestMs: percentile(sorted, 1) };
  };
}

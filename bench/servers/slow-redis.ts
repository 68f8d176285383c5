// Redis's own figures of its pauses: the longest command from its slowlog, and other causes (a fork, a write of the
// append-only file) from its latency monitor.

import type { Redis } from 'ioredis';

/** What takes Redis longer is noted by it. */
const SLOW_MS = 1;
const MOST_NOTED = 1_024;

/** Begins to listen; the function that comes back tells the longest of each kind since, in milliseconds. */
export async function listenToRedis(redis: Redis): Promise<() => Promise<Readonly<Record<string, number>>>> {
  await redis.config('SET', 'latency-monitor-threshold', SLOW_MS);
  await redis.config('SET', 'slowlog-log-slower-than', SLOW_MS * 1_000);
  await redis.config('SET', 'slowlog-max-len', MOST_NOTED);
  await redis.call('LATENCY', 'RESET');
  await redis.slowlog('RESET');
  return async () => {
    const events = (await redis.call('LATENCY', 'LATEST')) as [string, number, number, number][];
    const slow = (await redis.slowlog('GET', MOST_NOTED)) as [id: number, at: number, us: number][];
    return {
      ...Object.fromEntries(events.map(([name, _at, _last, longest]) => [`Redis, longest ${name}`, longest])),
      'Redis, longest of its slowlog': Math.max(0, ...slow.map(([, , us]) => us)) / 1_000,
    };
  };
}

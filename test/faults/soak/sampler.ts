// What a soak looks like from outside, second by second: answers and their times, what waits in Redis, memory.

import { readFile } from 'node:fs/promises';
import type { Cluster, Redis } from 'ioredis';
import { createKeys } from '../../../src/redis/keys.js';
import type { Load } from '../load.js';
import { connectRedisAt } from '../redis-at.js';
import type { Part, Service } from '../service.js';

export interface Sample {
  /** Seconds since the beginning. */
  readonly at: number;
  readonly acknowledged: number;
  readonly refused: number;
  readonly failed: number;
  /** Milliseconds; undefined where nothing was answered. */
  readonly p99: number | undefined;
  /** Events waiting in Redis; undefined while it does not answer. */
  readonly backlog: number | undefined;
  /** Megabytes, resident; undefined while a process is down. */
  readonly memory: Readonly<Record<string, number | undefined>>;
}

/** Samples once a second until `stop`. */
export function startSampler(service: Service, load: Load): { readonly samples: Sample[]; stop(): void } {
  const samples: Sample[] = [];
  const redis = connectRedisAt(service.redisUrl);
  const parts = [...service.workers, service.flush, service.redis, service.clickhouse];
  const timer = setInterval(async () => {
    const at = load.seconds.length - 2; // the last one that is whole
    const second = load.seconds[at];
    if (second === undefined) return;
    const { acknowledged, refused, failed } = second;
    const latencies = second.latencies.splice(0).sort((a, b) => a - b);
    const p99 = latencies[Math.floor(latencies.length * 0.99)];
    const memory = Object.fromEntries(
      await Promise.all(parts.map(async (part) => [part.name, await megabytes(part)] as const)),
    );
    samples.push({ at, acknowledged, refused, failed, p99, backlog: await backlogOf(redis), memory });
  }, 1_000);
  return {
    samples,
    stop() {
      clearInterval(timer);
      redis.disconnect();
    },
  };
}

async function backlogOf(redis: Redis | Cluster): Promise<number | undefined> {
  if (redis.status !== 'ready') return undefined;
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, 500, undefined));
  const asked = redis.hget(createKeys('wm').eventsState(0), 'events').then(Number);
  return await Promise.race([asked, late]).catch(() => undefined);
}

async function megabytes({ pid }: Part): Promise<number | undefined> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    return Number(/VmRSS:\s*(\d+) kB/.exec(status)?.[1]) / 1024;
  } catch {
    return undefined;
  }
}

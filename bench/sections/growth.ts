// Growth: visits with ten thousand, a million and ten million visitors, and to profiles with one, a hundred and ten
// thousand products, in slices in turn; what a visitor takes in Redis; and what forking for a rewrite of the append-only
// file takes as Redis grows.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { createKeys } from '../../src/redis/keys.js';
import type { Bench } from '../bench.js';
import { visit } from '../cases.js';
import { fillVisits, resetVisits } from '../load/fill.js';
import { info, settledMemory, sumHashes, untilWritten } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import { roundsOfOne } from '../settings.js';
import { CATALOGUE, type Product } from '../traffic/catalogue.js';
import { sessionId } from '../traffic/people.js';
import { drawn, postVisit, type Visit, visitsOf } from '../traffic/requests.js';
import { Entrant, type GroupResult, runSlices } from './slices.js';

/** Requests of a load: visitors enough for the processor's caches not to hold them all. */
const POOL = 300_000;
const MOST_PROFILES = 100_000;
/** Profiles whose counts are added up to prove them right: some microseconds each. */
const MOST_PROVABLE = 1_000_000;
/** wrk has then read its requests, and the load has begun. */
const REWRITE_AFTER_MS = 800;

export interface Growth {
  readonly cases: GroupResult;
  /** Bytes in Redis of an identity that is known and has no counts, as an event or an item makes it. */
  readonly bytesPerIdentity: number;
  /** Bytes in Redis of a visitor's one counted product; its name tells the profile. */
  readonly bytesPerVisitor: number;
  readonly forks: readonly Fork[];
}

interface Fork {
  readonly visitors: number;
  readonly redisBytes: number;
  /** For so long Redis answers no request. */
  readonly forkMs: number;
  /** The whole rewrite, under load. */
  readonly rewriteSeconds: number;
  /** Slowest visit of the load meanwhile, closed loop. */
  readonly slowestMs: number;
}

export async function measureGrowth(bench: Bench): Promise<Growth> {
  const { crowds, products } = bench.settings;
  const memory = { bytesPerIdentity: Number.NaN, bytesPerVisitor: Number.NaN };
  const worlds = crowds.map((visitors) =>
    entrant(
      bench,
      `${count(visitors)} visitors`,
      visitors,
      visitsOf(drawn(POOL, visitors)),
      async (target) => {
        if (visitors === crowds[1]) Object.assign(memory, await measureMemory(target, visitors));
        await fillVisits(target.port, visitsBy(visitors));
      },
    ),
  );
  const shelves = products.map((perProfile) => {
    const profiles = Math.min(MOST_PROFILES, (crowds[1] ?? 0) / perProfile);
    const visits = drawn(POOL, profiles * perProfile).map((n) => nthCount(n, perProfile));
    return entrant(bench, `${count(perProfile)} products a profile`, profiles, visits, ({ port }) =>
      fillVisits(port, countsOf(profiles, perProfile)),
    );
  });
  const forks: Fork[] = [];
  const settings = { ...bench.settings, rounds: roundsOfOne(bench.settings) };
  const cases = await runSlices({ ...bench, settings }, [...worlds, ...shelves], async () => {
    for (const [n, world] of worlds.entries())
      forks.push({ visitors: crowds[n] as number, ...(await rewrite(world, settings.seconds)) });
  });
  return { cases, ...memory, forks };
}

function entrant(
  bench: Bench,
  name: string,
  profiles: number,
  visits: readonly Visit[],
  fill: (target: Target) => Promise<void>,
): Entrant {
  const load = `growth-${name}` as const;
  const isProvable = profiles <= MOST_PROVABLE;
  bench.pools.add(load, { writes: true, requests: visits.map((one) => postVisit(one)) });
  const one = {
    ...visit,
    title: `visit, ${name}`,
    load,
    before: [['some', load]],
    proof: isProvable ? 'sums' : 'answers',
  } as const;
  const filled = async (target: Target) => {
    const redis = target.redis as Redis;
    await fill(target);
    await untilWritten(redis);
    return isProvable ? (await sumHashes([redis], createKeys('wm').identity('*.*'))).sum : 0;
  };
  return new Entrant(bench, { ...one, name, fill: filled });
}

async function measureMemory(
  { port, redis }: Target,
  visitors: number,
): Promise<Pick<Growth, 'bytesPerIdentity' | 'bytesPerVisitor'>> {
  const client = redis as Redis;
  const empty = await memoryOfVisitors(client);
  await fillVisits(port, visitsBy(visitors));
  const counted = await memoryOfVisitors(client);
  await resetVisits(port, visitsBy(visitors));
  const identified = await memoryOfVisitors(client);
  return {
    bytesPerIdentity: (identified - empty) / visitors,
    bytesPerVisitor: (counted - empty) / visitors,
  };
}

/** Without the log of visits: nothing flushes here, and what a waiting visit takes has a figure of its own. */
async function memoryOfVisitors(redis: Redis): Promise<number> {
  const log = await redis.memory('USAGE', createKeys('wm').visits.events(0), 'SAMPLES', 0);
  return (await settledMemory(redis)) - (log ?? 0);
}

/** In the middle of a second of load. */
async function rewrite(world: Entrant, seconds: number): Promise<Omit<Fork, 'visitors'>> {
  const redis = world.target.redis as Redis;
  const redisBytes = await settledMemory(redis);
  const loading = world.load(seconds);
  await sleep(REWRITE_AFTER_MS);
  await redis.bgrewriteaof();
  const { maxMs } = await loading;
  await untilWritten(redis);
  return {
    redisBytes,
    forkMs: (await info(redis, 'latest_fork_usec')) / 1_000,
    rewriteSeconds: await info(redis, 'aof_last_rewrite_time_sec'),
    slowestMs: maxMs,
  };
}

function* visitsBy(visitors: number): Generator<Visit> {
  for (let n = 0; n < visitors; n++)
    yield { sessionId: sessionId(n), productHandle: (CATALOGUE[n % CATALOGUE.length] as Product).handle };
}

function nthCount(n: number, perProfile: number): Visit {
  return { sessionId: sessionId(Math.floor(n / perProfile)), productHandle: `product-${n % perProfile}` };
}

function* countsOf(profiles: number, perProfile: number): Generator<Visit> {
  for (let n = 0; n < profiles * perProfile; n++) yield nthCount(n, perProfile);
}

function count(value: number): string {
  return value.toLocaleString('en');
}

// Visits at a modest rate, first alone and then beside an erasure or a sweep: the CPU that it takes, and how long it
// blocks Redis.

import type { Redis } from 'ioredis';
import type { Bench } from '../../bench.js';
import { type Metered, startMeter } from '../../cpu.js';
import { type Pings, startPings } from '../../load/pings.js';
import { runSteady, type SteadyResult } from '../../load/steady.js';
import { untilWritten } from '../../servers/redis.js';
import { listenToRedis } from '../../servers/slow-redis.js';
import type { Target } from '../../servers/target.js';
import { postVisit, visitsOf } from '../../traffic/requests.js';
import { upTo } from './crowd.js';

/** Visits per second. */
export const RATE = 1_000;
/** Visitors that these visits are of, each several times. */
export const COMING_BACK = 1_000;
const QUIET_RUNS = 3;

type Run = Omit<SteadyResult, 'slowest'> & Metered;

/** An erasure or a sweep beside visits. */
export interface Beside {
  readonly seconds: number;
  /** Seconds of CPU beyond what the visits take. */
  readonly redisCpu: number;
  /** Redis's longest pause by its own figures, see slow-redis.ts; milliseconds. */
  readonly pauseMs: number;
  readonly told: Readonly<Record<string, number>>;
  readonly pings: Pings;
  readonly runs: Readonly<Record<'before' | 'meanwhile', readonly Run[]>>;
}

/** Keeps rewrites of the append-only file, which `growth` measures, out of this measurement. */
export async function pausesOff(target: Target): Promise<Redis> {
  const redis = target.redis as Redis;
  await untilWritten(redis);
  await redis.config('SET', 'auto-aof-rewrite-percentage', 0);
  return redis;
}

/**
 * Measures some work beside visits at a fixed rate, after runs of the visits alone.
 * @param work resolves to the time at which it ended, by performance.now()
 * @param begun resolves once the work has begun, where it begins by itself
 */
export async function beside(
  bench: Bench,
  target: Target,
  work: () => Promise<number>,
  begun: () => Promise<void> = async () => {},
): Promise<Beside> {
  const redis = target.redis as Redis;
  const runs = { before: [] as Run[], meanwhile: [] as Run[] };
  const seconds = bench.settings.quick ? 3 : 5;
  for (let n = 0; n < QUIET_RUNS; n++) runs.before.push(await runAtRate(bench, target, seconds));
  await begun();
  const told = await listenToRedis(redis);
  const pinged = await startPings(redis);
  const meter = startMeter(target);
  const began = performance.now();
  let ended: number | undefined;
  const working = work().then((at) => {
    ended = at;
  });
  working.catch(() => {
    ended = Number.NaN;
  });
  while (ended === undefined) runs.meanwhile.push(await runAtRate(bench, target, seconds));
  await working;
  const { cpu } = meter();
  const pings = await pinged();
  const causes = await told();
  const perVisit = cpuOfRedis(runs.before) / answered(runs.before);
  return {
    seconds: (ended - began) / 1_000,
    redisCpu: Math.max(0, (cpu.redis ?? 0) - perVisit * answered(runs.meanwhile)),
    pauseMs: Math.max(...Object.values(causes)),
    told: causes,
    pings,
    runs,
  };
}

const answered = (runs: readonly Run[]) => runs.reduce((sum, run) => sum + run.answered, 0);
const cpuOfRedis = (runs: readonly Run[]) => runs.reduce((sum, { cpu }) => sum + (cpu.redis ?? 0), 0);

export async function runAtRate(bench: Bench, target: Target, seconds: number): Promise<Run> {
  const { port } = target;
  const meter = startMeter(target);
  const { slowest, ...result } = await runSteady({
    port,
    pool: poolOf(bench),
    rate: RATE,
    seconds,
    settleSeconds: 1,
  });
  return { ...result, ...meter() };
}

/** Their numbers are above those of all other visitors. */
function poolOf(bench: Bench) {
  const first = bench.settings.guests + (bench.settings.crowds[1] as number);
  const visits = visitsOf(upTo(COMING_BACK).map((n) => first + n));
  return bench.pools.add('rights', { writes: true, requests: visits.map((visit) => postVisit(visit)) });
}

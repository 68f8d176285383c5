// Visits at a modest rate, alone and then beside something that Redis does for visitors' rights: what that takes, and how
// long it keeps the visits waiting.

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

/** Visits per second, of so many visitors who come back. */
export const RATE = 1_000;
export const COMING_BACK = 1_000;
const QUIET_RUNS = 3;

type Run = Omit<SteadyResult, 'slowest'> & Metered;

/** Something that is done beside visits. */
export interface Beside {
  readonly seconds: number;
  /** Seconds of CPU beyond what the visits take. */
  readonly redisCpu: number;
  /** Longest command, or whatever else kept Redis, as it tells itself; milliseconds. */
  readonly pauseMs: number;
  readonly told: Readonly<Record<string, number>>;
  readonly pings: Pings;
  readonly runs: Readonly<Record<'before' | 'meanwhile', readonly Run[]>>;
}

/** Nothing is to come between that has a section of its own, or is not asked for: rewrites of the file, sweeps. */
export async function pausesOff(target: Target): Promise<Redis> {
  const redis = target.redis as Redis;
  await untilWritten(redis);
  await redis.config('SET', 'auto-aof-rewrite-percentage', 0);
  return redis;
}

/**
 * Visits at a fixed rate, for a while and then beside something.
 * @param work resolves with when it was over (performance.now())
 * @param begun resolves when it begins
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

/** Visits of those who come back, who are beyond all others. */
function poolOf(bench: Bench) {
  const first = bench.settings.guests + (bench.settings.crowds[1] as number);
  const visits = visitsOf(upTo(COMING_BACK).map((n) => first + n));
  return bench.pools.add('rights', { writes: true, requests: visits.map((visit) => postVisit(visit)) });
}

// Visits at a modest rate, first alone and then beside an erasure: the CPU that it takes, and how long it
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

type Run = Omit<SteadyResult, 'slowest'> & Metered;

/** Visits for some time, and Redis's pauses in it. */
interface Period {
  readonly runs: readonly Run[];
  /** The longest by Redis's own figures, see slow-redis.ts; milliseconds. It includes what Redis waits for a core. */
  readonly pauseMs: number;
  readonly told: Readonly<Record<string, number>>;
  readonly pings: Pings;
}

/** An erasure beside visits, and the visits alone. */
export interface Beside {
  readonly seconds: number;
  /** Seconds of CPU beyond what the visits take. */
  readonly redisCpu: number;
  readonly before: Period;
  readonly meanwhile: Period;
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
  const seconds = bench.settings.quick ? 3 : 5;
  const run = () => runAtRate(bench, target, seconds);
  const before = await observe(target, async () => [await run(), await run(), await run()]);
  await begun();
  const meter = startMeter(target);
  let began = 0;
  let ended = 0;
  let isOver = false;
  const meanwhile = await observe(target, async () => {
    began = performance.now();
    const working = work().finally(() => {
      isOver = true;
    });
    working.catch(() => {}); // thrown below
    const runs: Run[] = [];
    while (!isOver) runs.push(await run());
    ended = await working;
    return runs;
  });
  const { cpu } = meter();
  const perVisit = cpuOfRedis(before) / answered(before);
  return {
    seconds: (ended - began) / 1_000,
    redisCpu: Math.max(0, (cpu.redis ?? 0) - perVisit * answered(meanwhile)),
    before,
    meanwhile,
  };
}

async function observe(target: Target, visit: () => Promise<readonly Run[]>): Promise<Period> {
  const redis = target.redis as Redis;
  const listened = await listenToRedis(redis);
  const pinged = await startPings(redis);
  const runs = await visit();
  const pings = await pinged();
  const told = await listened();
  return { runs, pauseMs: Math.max(...Object.values(told)), told, pings };
}

const answered = ({ runs }: Period) => runs.reduce((sum, run) => sum + run.answered, 0);
const cpuOfRedis = ({ runs }: Period) => runs.reduce((sum, { cpu }) => sum + (cpu.redis ?? 0), 0);

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
  const first = bench.settings.crowds[1] as number;
  const visits = visitsOf(upTo(COMING_BACK).map((n) => first + n));
  return bench.pools.add('rights', { writes: true, requests: visits.map((visit) => postVisit(visit)) });
}

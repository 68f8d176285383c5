// Latency at half of our peak: ours beside bare uWebSockets.js at that same rate, in turn; and where the slowest
// hundred requests of each run waited.

import type { Bench } from '../bench.js';
import { GROUPS, visit } from '../cases.js';
import { type Metered, startMeter } from '../cpu.js';
import { runSteady, type SteadyResult } from '../load/steady.js';
import { listenToRedis } from '../servers/slow-redis.js';
import type { Target } from '../servers/target.js';
import { roundsOfOne } from '../settings.js';
import { type Causes, causesOf, type Sample, startSampling } from '../waits.js';
import { Entrant, withStarted } from './slices.js';

const COMPARED = [GROUPS.visits.cases[0], { ...visit, proof: 'sums' }] as const;

export interface Run extends Omit<SteadyResult, 'slowest'>, Metered {
  readonly causes: Causes;
  /** What the processes tell of themselves, milliseconds: delays of serve's event loop, what was slow in Redis. */
  readonly told: Readonly<Record<string, number>>;
}

export interface Latency {
  /** Requests per second. */
  readonly rate: number;
  readonly runs: Readonly<Record<'bare' | 'visit', readonly Run[]>>;
}

/** @param peak requests per second of a warm visit */
export async function measureLatency(bench: Bench, peak: number): Promise<Latency> {
  const { quick } = bench.settings;
  const rounds = roundsOfOne(bench.settings);
  const rate = Math.round(peak / 2);
  const entrants = COMPARED.map((one) => new Entrant(bench, one));
  const runs = { bare: [] as Run[], visit: [] as Run[] };
  await withStarted(entrants, async () => {
    for (let round = 0; round < rounds; round++) {
      for (const entrant of entrants) {
        const name = entrant.name as keyof typeof runs;
        const run = await runAtRate(bench, entrant, rate, quick ? 2 : 5);
        runs[name].push(run);
        bench.say(`${name} at ${rate}/s, round ${round + 1}: p99 ${run.p99Ms.toFixed(2)} ms`);
      }
    }
  });
  return { rate, runs };
}

async function runAtRate(bench: Bench, entrant: Entrant, rate: number, seconds: number): Promise<Run> {
  const { target, one } = entrant;
  const pool = bench.pools.get(one.load);
  const [server = 0] = target.pids.server ?? [];
  const [redis] = target.pids.redis ?? [];
  let endSampling = (): Sample[] => [];
  const told = await listen(target);
  const meter = startMeter(target);
  const { slowest, ...result } = await runSteady(
    { port: target.port, pool, rate, seconds, settleSeconds: 1 },
    (generator) => {
      const pids = { 'the generator': generator, 'the server': server };
      endSampling = startSampling(redis === undefined ? pids : { ...pids, Redis: redis });
    },
  );
  const metered = meter();
  const samples = endSampling();
  entrant.note({ pool, count: result.answered });
  if (result.failed > 0) throw new Error(`${result.failed} requests at ${rate}/s were not answered well`);
  return { ...result, ...metered, causes: causesOf(slowest, samples), told: await told() };
}

/** Begins to listen to what server and Redis say of themselves; the function that comes back tells it. */
async function listen({ redis, port }: Target): Promise<() => Promise<Run['told']>> {
  if (redis === undefined) return async () => ({});
  const slow = await listenToRedis(redis);
  const delaysBefore = await eventLoopDelays(port);
  return async () => ({
    ...longestDelay(delaysBefore, await eventLoopDelays(port)),
    ...(await slow()),
  });
}

/** Delays of the server's event loop so far, by the bounds of its histogram: a cumulative count up to each. */
async function eventLoopDelays(port: number): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const buckets = text.matchAll(/^wishmeter_event_loop_delay_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)$/gm);
  return new Map(Array.from(buckets, ([, le = '', count]) => [le, Number(count)]));
}

/** The least bound that none of the delays in between was beyond. */
function longestDelay(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): Run['told'] {
  const between = Array.from(after, ([le, count]) => [le, count - (before.get(le) ?? 0)] as const);
  const all = between.at(-1)?.[1];
  const bound = between.find(([, count]) => count === all)?.[0];
  if (bound === undefined || bound === '+Inf') return {};
  return { "the server's event loop, longest delay, at most": Number(bound) * 1_000 };
}

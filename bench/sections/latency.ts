// Latency at half of our peak: ours beside bare uWebSockets.js at that same rate, in interleaved rounds.

import type { Bench } from '../bench.js';
import { CASES, type Case } from '../cases.js';
import { runSteady, type SteadyResult } from '../load/steady.js';
import { PROOFS } from '../proofs/proofs.js';
import { startTarget } from '../servers/start.js';
import { median } from '../statistics.js';
import { warmUp } from './round.js';

const COMPARED = ['visit', 'bare'] as const;

export interface Latency {
  /** Requests per second. */
  readonly rate: number;
  /** Medians over the rounds. */
  readonly cases: Readonly<
    Record<(typeof COMPARED)[number], Pick<SteadyResult, 'p50Ms' | 'p99Ms' | 'maxMs'>>
  >;
  /** How late the generator itself was, 99th percentile, the worst round. */
  readonly generatorLateP99Ms: number;
}

/** @param peak requests per second of a warm visit */
export async function measureLatency(bench: Bench, peak: number): Promise<Latency> {
  const { quick, rounds } = bench.settings;
  const rate = Math.round(peak / 2);
  const results = { visit: [] as SteadyResult[], bare: [] as SteadyResult[] };
  for (let round = 0; round < rounds; round++) {
    for (const name of COMPARED) {
      const one = CASES.find((candidate) => candidate.name === name) as Case;
      const result = await runAtRate(bench, one, rate, quick ? 2 : 6);
      results[name].push(result);
      bench.say(`${name} at ${rate}/s, round ${round + 1}: p99 ${result.p99Ms.toFixed(2)} ms`);
    }
  }
  const summary = (list: readonly SteadyResult[]) => ({
    p50Ms: median(list.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(list.map(({ p99Ms }) => p99Ms)),
    maxMs: median(list.map(({ maxMs }) => maxMs)),
  });
  return {
    rate,
    cases: { visit: summary(results.visit), bare: summary(results.bare) },
    generatorLateP99Ms: Math.max(
      ...Object.values(results).flatMap((list) => list.map((r) => r.generatorLateP99Ms)),
    ),
  };
}

async function runAtRate(bench: Bench, one: Case, rate: number, seconds: number): Promise<SteadyResult> {
  const target = await startTarget({ ...one, dir: bench.folder() });
  try {
    await PROOFS[one.proof].before(target);
    await warmUp(bench, one, target);
    const pool = bench.pools.get(one.load);
    const result = await runSteady({ port: target.port, pool, rate, seconds, settleSeconds: 1 });
    if (result.failed > 0) throw new Error(`${result.failed} requests at ${rate}/s were not answered well`);
    return result;
  } finally {
    await target.stop();
  }
}

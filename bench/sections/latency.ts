// Latency at half of a visit's peak rate, next to bare uWebSockets.js at that same rate, in turn.

import type { Bench } from '../bench.js';
import { bare, visit } from '../cases.js';
import { type Metered, startMeter } from '../cpu.js';
import { runSteady, type SteadyResult } from '../load/steady.js';
import { Entrant } from './entrant.js';
import { withStarted } from './slices.js';

export interface Run extends SteadyResult, Metered {}

export interface Latency {
  /** Requests per second. */
  readonly rate: number;
  readonly runs: Readonly<Record<'bare' | 'visit', readonly Run[]>>;
}

const ROUNDS = 3;
const SECONDS = 4;
const QUICK_SECONDS = 2;

/** @param peak requests per second of a warm visit */
export async function measureLatency(bench: Bench, peak: number): Promise<Latency> {
  const { quick } = bench.settings;
  const rate = Math.round(peak / 2);
  const limit = new Entrant(bench, bare);
  const ours = new Entrant(bench, visit);
  const runs = { bare: [] as Run[], visit: [] as Run[] };
  await withStarted([limit, ours], async () => {
    for (let round = 0; round < (quick ? 1 : ROUNDS); round++) {
      runs.bare.push(await runAtRate(bench, limit, rate));
      runs.visit.push(await runAtRate(bench, ours, rate));
    }
  });
  return { rate, runs };
}

async function runAtRate(
  { pool: poolOf, settings, say }: Bench,
  entrant: Entrant,
  rate: number,
): Promise<Run> {
  const { target, one, name } = entrant;
  const pool = poolOf(one.load);
  const meter = startMeter(target);
  const seconds = settings.quick ? QUICK_SECONDS : SECONDS;
  const result = await runSteady({ port: target.port, rate, seconds, file: pool.file });
  const metered = meter();
  entrant.note(pool, result.answered);
  if (result.failed > 0) throw new Error(`${result.failed} requests at ${rate}/s failed`);
  say(`${name} at ${rate}/s: p99 ${result.p99Ms.toFixed(2)} ms`);
  return { ...result, ...metered };
}

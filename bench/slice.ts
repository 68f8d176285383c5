// A slice: about a second of load on one target, between slices of others. What is measured here is compared slice by
// slice with a neighbour of the same round, which saw the same machine; medians of such ratios hold where seconds of
// a busy machine do not. A slice that others disturbed is left out, by this rule:
//
//   disturbed: more than 2 % of the machine's CPU time was stolen by its host (steal in /proc/stat), or processes that
//   have nothing to do with the slice (not its servers, nor the load) took more than 15 % of it; or a request was refused.
//
// Where that would leave fewer than a third of the rounds, all are taken, and the report marks what came of them.

import type { Disturbance, Metered } from './cpu.js';
import type { Answered } from './load/wrk.js';
import type { Part } from './servers/target.js';
import { median } from './statistics.js';

export interface Slice extends Answered, Metered {
  /** What was asked for: visits of a batch count one each. */
  readonly operations: number;
}

/** Any measurement of some seconds. */
export interface Disturbable {
  readonly disturbance: Disturbance;
  readonly refused?: number;
}

const MOST_STOLEN = 0.02;
const MOST_OTHERS = 0.15;
const LEAST_KEPT = 1 / 3;

export function isDisturbed({ disturbance: { stolen, others }, refused = 0 }: Disturbable): boolean {
  return stolen > MOST_STOLEN || others > MOST_OTHERS || refused > 0;
}

/** A median, and whether disturbed slices had to be taken for it. */
export interface Figure {
  readonly value: number;
  readonly isDisturbed: boolean;
}

/** The median, round by round, of a figure made of one measurement of each series. */
export function medianOf<Each extends readonly Disturbable[]>(
  series: { readonly [I in keyof Each]: readonly Each[I][] },
  figure: (...measured: Each) => number,
): Figure {
  const rounds = Math.min(...series.map((list) => list.length));
  const all = Array.from(
    { length: rounds },
    (_, round) => series.map((list) => list[round]) as unknown as Each,
  );
  const quiet = all.filter((measured) => !measured.some(isDisturbed));
  const isEnough = quiet.length >= rounds * LEAST_KEPT;
  return {
    value: median((isEnough ? quiet : all).map((measured) => figure(...measured))),
    isDisturbed: !isEnough,
  };
}

/** Microseconds of CPU per operation, of these parts together. */
export function cpuUs({ cpu, operations }: Slice, ...parts: readonly Part[]): number {
  return (parts.reduce((sum, part) => sum + (cpu[part] ?? 0), 0) / operations) * 1e6;
}

/** An operation's microseconds of CPU in server and Redis. */
export function costUs(slice: Slice): number {
  return cpuUs(slice, 'server', 'redis');
}

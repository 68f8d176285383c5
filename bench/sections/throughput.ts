// Requests per second, latency in a closed loop and CPU time per request: every case, in interleaved rounds.

import { type Bench, isWanted } from '../bench.js';
import { CASES, type Case } from '../cases.js';
import type { Part } from '../servers/target.js';
import { median } from '../statistics.js';
import { type Round, runRound } from './round.js';

export interface CaseResult {
  readonly title: string;
  readonly who: Case['who'];
  /** Medians over the rounds. */
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Microseconds of CPU per request. */
  readonly cpuUs: Partial<Record<Part, number>>;
  /** ours: operations that shared one call to Redis. */
  readonly perCall: number | undefined;
  readonly rounds: readonly Round[];
}

export type Throughput = Readonly<Record<string, CaseResult>>;

/** The cases that ONLY names; it may name the section instead. */
export function wantedCases(bench: Bench): readonly Case[] {
  return CASES.filter(({ name }) => isWanted(bench, name));
}

export async function measureThroughput(bench: Bench): Promise<Throughput> {
  const wanted = wantedCases(bench);
  const cases = wanted.length > 0 ? wanted : CASES;
  const rounds = new Map<string, Round[]>(cases.map(({ name }) => [name, []]));
  for (let round = 0; round < bench.settings.rounds; round++) {
    // Each round begins with another case, so that none always comes after the same neighbour.
    const from = Math.floor((round * cases.length) / bench.settings.rounds);
    for (const one of [...cases.slice(from), ...cases.slice(0, from)]) {
      const result = await runRound(bench, one);
      rounds.get(one.name)?.push(result);
      bench.say(
        `${one.name}, round ${round + 1}: ${Math.round(result.perSecond)} requests/s, p99 ${result.p99Ms.toFixed(1)} ms`,
      );
    }
  }
  return Object.fromEntries(cases.map((one) => [one.name, resultOf(one, rounds.get(one.name) ?? [])]));
}

function resultOf({ title, who }: Case, rounds: readonly Round[]): CaseResult {
  const of = (figure: (round: Round) => number) => median(rounds.map(figure));
  const parts = Object.keys(rounds[0]?.cpu ?? {}) as Part[];
  return {
    title,
    who,
    perSecond: of(({ perSecond }) => perSecond),
    p50Ms: of(({ p50Ms }) => p50Ms),
    p99Ms: of(({ p99Ms }) => p99Ms),
    cpuUs: Object.fromEntries(
      parts.map((part) => [part, of(({ cpu, answers }) => ((cpu[part] ?? 0) / answers) * 1e6)]),
    ),
    perCall: rounds[0]?.perCall === undefined ? undefined : of(({ perCall = 0 }) => perCall),
    rounds,
  };
}

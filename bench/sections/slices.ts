// Cases in slices of a second, in turn, round after round: what an operation costs, beside its neighbours. Every
// target is started fresh, its answers are proved right, it is warmed up, and after the last slice it is proved to
// hold exactly what it acknowledged. Then all of them are started again: two processes of the same program differ by
// some per cent for as long as they live.

import { setTimeout as sleep } from 'node:timers/promises';
import { type Bench, isWanted } from '../bench.js';
import { type Case, GROUPS, type Group, type GroupName } from '../cases.js';
import { startMeter } from '../cpu.js';
import { type Answered, replay } from '../load/wrk.js';
import { untilDrained } from '../proofs/events.js';
import type { Sent } from '../proofs/proof.js';
import { PROOFS } from '../proofs/proofs.js';
import { startTarget } from '../servers/start.js';
import type { Target } from '../servers/target.js';
import { mostRounds } from '../settings.js';
import { isDisturbed, type Series, type Slice } from '../slice.js';
import { mean } from '../statistics.js';
import { WARM_UP } from '../traffic/pools.js';

export interface CaseResult {
  readonly title: string;
  readonly who: Case['who'];
  readonly slices: Series;
  /** ours: operations that shared one call to Redis, on average. */
  readonly perCall?: number;
}

/**
 * Of load before each slice. A process that has rested while the others had their turn finds their data in the
 * processor's caches, and V8 has given memory back, which costs page faults: no shop's visits pay for that rest.
 */
const LEAD_S = 0.5;

/** Of its load before its first slice: in the first second of it a visit takes a tenth more, as the compiler goes on. */
const FIRST_LEAD_S = 2;

export type GroupResult = Readonly<Record<string, CaseResult>>;

/** The cases of a group that ONLY names, or all where it names the group; with what they are compared with. */
export function wantedCases(bench: Bench, group: GroupName): readonly Case[] {
  const { reference, cases }: Group = GROUPS[group];
  // What other groups have as a reference, too, is measured in the first.
  const isOwn = ({ name }: Case) => group === 'visits' || !reference.includes(name);
  const wanted = cases.filter((one) => isWanted(bench, group) || (isOwn(one) && isWanted(bench, one.name)));
  return wanted.length === 0
    ? []
    : cases.filter((one) => wanted.includes(one) || reference.includes(one.name));
}

export async function measureGroup(bench: Bench, group: GroupName): Promise<GroupResult> {
  const cases = wantedCases(bench, group);
  bench.say(`${group}: ${cases.map(({ name }) => name).join(', ')}`);
  return await runStarts(bench, () => cases.map((one) => new Entrant(bench, one)));
}

/** @param enter makes the entrants of one start. @throws where one of them fails a proof */
export async function runStarts(bench: Bench, enter: () => readonly Entrant[]): Promise<GroupResult> {
  const runs: GroupResult[] = [];
  for (let start = 0; start < bench.settings.starts; start++) runs.push(await runSlices(bench, enter()));
  return joined(runs);
}

/** The slices of all starts, one start after the other, and the mean of their calls. */
export function joined(runs: readonly GroupResult[]): GroupResult {
  const entries = Object.entries(runs[0] ?? {}).map(([name, one]): [string, CaseResult] => {
    const each = runs.map((run) => run[name] as CaseResult);
    const slices = each.flatMap((result) => result.slices);
    const perCall = mean(each.map((result) => result.perCall ?? Number.NaN));
    return [name, { ...one, slices, ...(one.perCall === undefined ? {} : { perCall }) }];
  });
  return Object.fromEntries(entries);
}

/** A case that takes part, and its running target. */
export class Entrant {
  readonly name: string;
  readonly one: Case;
  readonly slices: Slice[] = [];
  readonly #bench: Bench;
  readonly #root: URL | undefined;
  readonly #sent: Sent[] = [];
  #target: Target | undefined;
  #left = 0;
  #callsBefore = { operations: 0, calls: 0 };

  /** @param root the tree that `wishmeter` is run from, where it may be another than this one: looked at from outside only */
  constructor(bench: Bench, one: Case, name = one.name, root?: URL) {
    this.name = name;
    this.one = one;
    this.#bench = bench;
    this.#root = root;
  }

  get target(): Target {
    if (this.#target === undefined) throw new Error('not started');
    return this.#target;
  }

  async start(): Promise<void> {
    const root = this.#root === undefined ? {} : { root: this.#root };
    this.#target = await startTarget({ ...this.one, dir: this.#bench.folder(), ...root });
    this.#left = await PROOFS[this.one.proof].before(this.target);
    if (this.one.fill !== undefined) this.#left = await this.one.fill(this.target);
    this.#sent.push(...(await warmUp(this.#bench, this.one, this.target)));
    await this.load(FIRST_LEAD_S);
    this.#callsBefore = await readCalls(this.one, this.target);
  }

  /** Measures its load for a slice, when that has run for a while. */
  async slice(): Promise<Slice> {
    const { pools, settings } = this.#bench;
    await this.load(LEAD_S);
    const meter = startMeter(this.target);
    const answered = await this.load(settings.seconds);
    return { ...answered, ...meter(), operations: answered.answers * pools.get(this.one.load).perRequest };
  }

  /** Its load for so long, which the proof knows of. */
  async load(seconds: number): Promise<Answered> {
    const { target, one } = this;
    const pool = this.#bench.pools.get(one.load);
    // Where the pool has been begun it is gone on with: a new session is new once.
    const first = this.#sent.find((earlier) => earlier.pool === pool)?.count ?? 0;
    const answered = await replay({ ...one, port: target.port, pool, first, seconds });
    // What is still to be flushed was caused here, and would disturb what comes next.
    if (one.flushes) await untilDrained(target);
    this.note({ pool, count: answered.answers });
    if (one.isPoolUsedUp && first + answered.answers > pool.size)
      throw new Error(`${one.name}: more answers than new sessions`);
    return answered;
  }

  /** Notes what was acknowledged, for the proof. */
  note(sent: Sent): void {
    const at = this.#sent.findIndex(({ pool }) => pool === sent.pool);
    const earlier = this.#sent[at];
    if (earlier === undefined) this.#sent.push(sent);
    else this.#sent[at] = { ...earlier, count: earlier.count + sent.count };
  }

  /** @throws where the target does not hold what it acknowledged */
  async prove(): Promise<CaseResult> {
    const { one, target, slices } = this;
    const calls = await readCalls(one, target);
    const perCall =
      (calls.operations - this.#callsBefore.operations) / (calls.calls - this.#callsBefore.calls);
    const proof = PROOFS[one.proof];
    await proof.outside(target, this.#sent, this.#left);
    if (this.#root === undefined) await proof.inside(target, this.#sent, this.#left);
    return { title: one.title, who: one.who, slices, ...(perCall > 0 ? { perCall } : {}) };
  }

  async stop(): Promise<void> {
    await this.#target?.stop();
  }
}

/** @param afterwards done before they are proved right. @throws where one of them fails a proof */
export async function runSlices(
  { settings, say }: Bench,
  entrants: readonly Entrant[],
  afterwards = async () => {},
): Promise<GroupResult> {
  const hasEnough = ({ slices }: Entrant) =>
    slices.filter((slice) => !isDisturbed(slice)).length >= settings.rounds;
  return await withStarted(entrants, async () => {
    for (let round = 0; round < mostRounds(settings); round++) {
      if (round >= settings.rounds && entrants.every(hasEnough)) break;
      // Forth and back, so that none always comes after the same neighbour.
      const order = round % 2 === 0 ? entrants : entrants.toReversed();
      await each(order, async (entrant) => entrant.slices.push(await entrant.slice()));
      const last = entrants.map(({ name, slices }) => `${name} ${describe(slices.at(-1))}`);
      say(`round ${round + 1}: ${last.join(', ')}`);
    }
    await afterwards();
  });
}

/** Starts them, lets something be done with them, proves them right and stops them. */
export async function withStarted(
  entrants: readonly Entrant[],
  act: () => Promise<void>,
): Promise<GroupResult> {
  try {
    await each(entrants, (entrant) => entrant.start());
    await act();
    const results = await each(entrants, (entrant) => entrant.prove());
    return Object.fromEntries(entrants.map(({ name }, i) => [name, results[i] as CaseResult]));
  } finally {
    for (const entrant of entrants) await entrant.stop();
  }
}

async function each<T>(list: readonly Entrant[], act: (entrant: Entrant) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (const entrant of list) {
    try {
      results.push(await act(entrant));
    } catch (error) {
      throw new Error(`${entrant.name}: ${(error as Error).message}`, { cause: error });
    }
  }
  return results;
}

function describe(slice: Slice | undefined): string {
  if (slice === undefined) return '';
  return `${Math.round(slice.perSecond)}/s${isDisturbed(slice) ? ' (disturbed)' : ''}`;
}

/** Replays what comes before the timing. */
export async function warmUp({ pools }: Bench, one: Case, { port }: Target): Promise<Sent[]> {
  const sent: Sent[] = [];
  for (const [share, name] of one.before) {
    const pool = pools.get(name);
    const requests = share === 'all' ? pool.size : Math.min(WARM_UP, pool.size);
    const { connections, isRefused } = one;
    const { answers } = await replay({ port, pool, requests, connections, isRefused });
    sent.push({ pool, count: answers });
  }
  return sent;
}

/** `/metrics` is made at most once a second. */
const FIGURES_LAST_MS = 1_010;

/** What the server's own metrics tell of its batches; of one worker, where there are several. */
async function readCalls({ server }: Case, { port }: Target): Promise<{ operations: number; calls: number }> {
  if (server !== 'wishmeter') return { operations: 0, calls: 0 };
  await sleep(FIGURES_LAST_MS);
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const sum = (name: string) => {
    const lines = text.matchAll(new RegExp(`^wishmeter_batch_operations_${name}\\{.*\\} (\\S+)$`, 'gm'));
    return [...lines].reduce((total, [, value]) => total + Number(value), 0);
  };
  return { operations: sum('sum'), calls: sum('count') };
}

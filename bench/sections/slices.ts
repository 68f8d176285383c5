// Cases in slices of a second, in turn, round after round: the cost of an operation next to its neighbours. Then all of them
// are started again, since two processes of the same program differ by some per cent for as long as they live.

import { type Bench, isWanted } from '../bench.js';
import { type Case, GROUPS, type Group, type GroupName } from '../cases.js';
import { mostRounds } from '../settings.js';
import { isDisturbed, type Slice } from '../slice.js';
import { Entrant } from './entrant.js';

export interface CaseResult {
  readonly title: string;
  /** By round. */
  readonly slices: readonly Slice[];
}

/** By name. */
export type GroupResult = Readonly<Record<string, CaseResult>>;

/** The cases of a group that ONLY names, or all if it names the group; with the cases that they are compared with. */
export function wantedCases(bench: Pick<Bench, 'settings'>, group: GroupName): readonly Case[] {
  const { reference, cases }: Group = GROUPS[group];
  // A reference of several groups is measured for its own sake in the first.
  const isOwn = ({ name }: Case) => group === 'visits' || !reference.includes(name);
  const wanted = cases.filter((one) => isWanted(bench, group) || (isOwn(one) && isWanted(bench, one.name)));
  return wanted.length === 0
    ? []
    : cases.filter((one) => wanted.includes(one) || reference.includes(one.name));
}

export async function measureGroup(bench: Bench, group: Group, cases: readonly Case[]): Promise<GroupResult> {
  const entrants: Entrant[] = [];
  for (let start = 0; start < (group.startsOnce ? 1 : bench.settings.starts); start++) {
    const started = cases.map((one) => new Entrant(bench, one));
    await runSlices(group.startsOnce ? inOneStart(bench) : bench, started);
    entrants.push(...started);
  }
  return resultOf(entrants);
}

/** As many rounds as the starts have in all. */
export function inOneStart({ settings, say }: Pick<Bench, 'settings' | 'say'>) {
  return { say, settings: { ...settings, rounds: settings.starts * settings.rounds } };
}

/** The slices of each case, one start after the other. */
export function resultOf(entrants: readonly Entrant[]): GroupResult {
  const result: Record<string, CaseResult> = {};
  for (const { name, one, slices } of entrants)
    result[name] = { title: one.title, slices: [...(result[name]?.slices ?? []), ...slices] };
  return result;
}

/** @throws if one of them fails a proof */
export async function runSlices(
  { settings, say }: Pick<Bench, 'settings' | 'say'>,
  entrants: readonly Entrant[],
): Promise<void> {
  const hasEnough = ({ slices }: Entrant) =>
    slices.filter((slice) => !isDisturbed(slice)).length >= settings.rounds;
  await withStarted(entrants, async () => {
    for (let round = 0; round < mostRounds(settings); round++) {
      if (round >= settings.rounds && entrants.every(hasEnough)) break;
      // Back and forth, so that no case always follows the same neighbour.
      const order = round % 2 === 0 ? entrants : entrants.toReversed();
      await each(order, async (entrant) => void entrant.slices.push(await entrant.slice()));
      const last = entrants.map(({ name, slices }) => `${name} ${describe(slices.at(-1))}`);
      say(`round ${round + 1}: ${last.join(', ')}`);
    }
  });
}

/** Starts them, runs the work, proves them right and stops them. */
export async function withStarted(entrants: readonly Entrant[], work: () => Promise<void>): Promise<void> {
  try {
    await each(entrants, (entrant) => entrant.start());
    await work();
    await each(entrants, (entrant) => entrant.prove());
  } finally {
    for (const entrant of entrants) await entrant.stop();
  }
}

async function each(list: readonly Entrant[], act: (entrant: Entrant) => Promise<void>): Promise<void> {
  for (const entrant of list) {
    try {
      await act(entrant);
    } catch (error) {
      throw new Error(`${entrant.name}: ${(error as Error).message}`, { cause: error });
    }
  }
}

function describe(slice: Slice | undefined): string {
  if (slice === undefined) return '';
  return `${Math.round(slice.perSecond)}/s${isDisturbed(slice) ? ' (disturbed)' : ''}`;
}

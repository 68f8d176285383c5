// Runs schedules of a scenario, with or without a server that ends in the middle, until all were run, one fails, or as
// many were run as were asked for. The number alone decides what runs, so a slow machine searches as much as a fast one.

import { words } from './acts.js';
import type { Crash } from './play.js';
import type { Scenario } from './scenarios.js';
import { type Pending, type Schedule, Search } from './search.js';
import type { World } from './world.js';

export interface Report {
  /** Schedules that ran to their end. */
  readonly schedules: number;
  /** Schedules that were abandoned because an equal one is run. */
  readonly cut: number;
  /** Schedules that could not be followed again as they were. */
  readonly strayed: number;
  /** Whether no schedule is left. */
  readonly isComplete: boolean;
  /** The first failure, in words, with what runs it again. */
  readonly failure: string | undefined;
  /** Schedules in which the server ended. */
  readonly crashes: number;
}

/**
 * Runs the schedules that the search finds, those with the fewest preemptions first.
 * @param most schedules to run, with those that are cut
 */
export function explore(world: World, scenario: Scenario, most: number, crash?: Crash): Promise<Report> {
  const search = new Search(scenario.addsCommute);
  return run(world, scenario, most, () => search.next(), crash);
}

/** Runs schedules whose every step is drawn. @param random from 0 to 1, see Math.random */
export function wander(
  world: World,
  scenario: Scenario,
  times: number,
  random: () => number,
): Promise<Report> {
  const choose = (enabled: readonly Pending[]) => enabled[Math.floor(random() * enabled.length)]?.id;
  return run(world, scenario, times, () => ({ choose, ran() {}, isFaithful: true }));
}

async function run(
  world: World,
  scenario: Scenario,
  most: number,
  next: () => Schedule | undefined,
  crash?: Crash,
): Promise<Report> {
  const found = { schedules: 0, cut: 0, strayed: 0, crashes: 0 };
  let isComplete = false;
  let failure: string | undefined;
  while (failure === undefined && found.schedules + found.cut < most) {
    const schedule = next();
    if (schedule === undefined) {
      isComplete = true;
      break;
    }
    const outcome = await world.run(scenario, schedule, crash);
    if (!schedule.isFaithful) found.strayed++;
    if (outcome.wasCut) found.cut++;
    else found.schedules++;
    if (outcome.hasCrashed) found.crashes++;
    if (outcome.faults.length > 0) failure = tell(scenario, outcome, crash);
  }
  return { ...found, isComplete, failure };
}

/** What failed, its steps, and what runs it again. */
export function tell(
  { name, given, left, operations }: Scenario,
  { faults, story, path }: Awaited<ReturnType<World['run']>>,
  crash?: Crash,
): string {
  const end = crash === undefined ? '' : `!${crash.operation}.${crash.after}`;
  return [
    `${name}: given ${given.map(words).join(', ') || 'nothing'}${left ? `, and ${words(left)} left half done (L)` : ''}; then at once`,
    ...operations.map((act, i) => `  R${i} ${words(act)}`),
    ...(faults.length > 0 ? ['fails:', ...faults.map((fault) => `  ${fault}`)] : []),
    'steps (in {S} is the slot of S, PS is the profile that S made):',
    ...story.map((step) => `  ${step}`),
    `again: SCHEDULE='${name}${end}=${path.join(',')}'`,
  ].join('\n');
}

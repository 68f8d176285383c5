// Runs the schedules of a scenario, with or without a server that ends in the middle, until all were run, one fails,
// or there is no more time.

import { words } from './acts.js';
import type { Crash } from './play.js';
import type { Scenario } from './scenarios.js';
import { Search } from './search.js';
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
  readonly seconds: number;
  /** The first failure, in words, with what runs it again. */
  readonly failure: string | undefined;
  /** Schedules in which the server ended. */
  readonly crashes: number;
}

export interface Limits {
  readonly schedules: number;
  readonly seconds: number;
}

export async function explore(
  world: World,
  scenario: Scenario,
  limits: Limits,
  crash?: Crash,
): Promise<Report> {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const search = new Search(scenario.addsCommute);
  const found = { schedules: 0, cut: 0, strayed: 0, crashes: 0 };
  let isComplete = false;
  let failure: string | undefined;
  while (failure === undefined && found.schedules < limits.schedules && seconds() < limits.seconds) {
    const schedule = search.next();
    if (schedule === undefined) {
      isComplete = true;
      break;
    }
    const outcome = await world.run(schedule, crash);
    if (!schedule.isFaithful) found.strayed++;
    if (outcome.wasCut) found.cut++;
    else found.schedules++;
    if (outcome.hasCrashed) found.crashes++;
    if (outcome.faults.length > 0) failure = tell(scenario, outcome, crash);
  }
  return { ...found, isComplete, seconds: seconds(), failure };
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

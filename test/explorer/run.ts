// The explorer as a test: scenarios on one Redis or cluster, a few at a time. First every schedule of the operations,
// then, for each step of each operation, the schedules in which its server ends after that step and another one is
// asked the same again.
//
//   FAULTS=full                every schedule there is, up to SECONDS (600) for each scenario, twice that with ends
//   SCENARIO=<part of a name>  only these
//   SCHEDULE='<name>=<steps>'  only this schedule, as a failure prints it

import type { Test } from 'tap';
import type { TestRedis } from '../harness/redis.js';
import { explore, type Report, tell } from './explorer.js';
import { type Crash, LEFT } from './play.js';
import type { Scenario } from './scenarios.js';
import { makeReady } from './scripts.js';
import { Search } from './search.js';
import { Watch } from './watch.js';
import { World } from './world.js';

const IS_FULL = process.env['FAULTS'] === 'full';
const SECONDS = Number(process.env['SECONDS'] ?? 600);
const AT_ONCE = 8;

/** For all of a test. */
export const TIMEOUT_MS = IS_FULL ? 4 * 60 * 60_000 : 600_000;

const ALL = Number.POSITIVE_INFINITY;

/** Seconds for a scenario: for the search without an end of a server, and for all those with one. */
function secondsFor({ isDeep, left }: Scenario, scenarios: number): { calm: number; crashes: number } {
  if (IS_FULL) return { calm: SECONDS, crashes: SECONDS * 2 };
  return { calm: isDeep ? 25 : left === undefined ? 100 / scenarios : 10, crashes: 4 };
}
/** Schedules for each end of a server. */
const CRASH_SCHEDULES = IS_FULL ? ALL : 1;

export async function testScenarios(
  t: Test,
  redis: TestRedis,
  scenarios: readonly Scenario[],
): Promise<void> {
  t.teardown(() => redis.stop());
  await makeReady(redis.urls);
  const watch = await Watch.open(redis.urls);
  t.teardown(() => watch.close());
  const again = process.env['SCHEDULE'];
  const waiting = scenarios.filter(({ name }) =>
    again === undefined ? name.includes(process.env['SCENARIO'] ?? '') : again.split(/[=!]/)[0] === name,
  );
  waiting.sort((a, b) => Number(b.isDeep) - Number(a.isDeep));
  let worlds = 0;
  const work = async () => {
    for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift()) {
      const world = await World.open(redis.urls, watch, `x${worlds++}`, scenario);
      try {
        if (again !== undefined) await runAgain(t, world, scenario, again);
        else {
          const { calm, crashes } = secondsFor(scenario, scenarios.length);
          if (scenario.left !== undefined) {
            report(t, scenario.name, await exploreLeft(world, scenario, performance.now() + calm * 1000));
            continue;
          }
          report(t, scenario.name, await explore(world, scenario, { schedules: ALL, seconds: calm }));
          const ends = await exploreCrashes(world, scenario, performance.now() + crashes * 1000);
          report(t, `${scenario.name}, servers that end`, ends);
        }
      } finally {
        await world.close();
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** One search for each step of each operation that changes anything: first all first steps, then all second ones. */
async function exploreCrashes(world: World, scenario: Scenario, until: number): Promise<Report> {
  let sum: Report | undefined;
  let acts = [...scenario.operations.keys()].filter((i) => {
    const act = scenario.operations[i];
    return act?.do !== 'read' && act?.do !== 'list';
  });
  for (let after = 1; acts.length > 0 && sum?.failure === undefined; after++) {
    const longer: number[] = [];
    for (const operation of acts) {
      const seconds = (until - performance.now()) / 1000;
      const limits = { schedules: CRASH_SCHEDULES, seconds: Math.min(seconds, SECONDS / 10) };
      const found = await explore(world, scenario, limits, { operation, after });
      sum = sum === undefined ? found : add(sum, found);
      if (found.crashes > 0) longer.push(operation);
    }
    acts = longer;
  }
  return sum as Report;
}

/** One search for each step after which the half-done act was left. */
async function exploreLeft(world: World, scenario: Scenario, until: number): Promise<Report> {
  let sum: Report | undefined;
  for (let after = 1; ; after++) {
    const limits = { schedules: ALL, seconds: (until - performance.now()) / 1000 };
    const found = await explore(world, scenario, limits, { operation: LEFT, after });
    sum = sum === undefined ? found : add(sum, found);
    if (found.crashes === 0 || found.failure !== undefined) return sum;
  }
}

function add(a: Report, b: Report): Report {
  return {
    schedules: a.schedules + b.schedules,
    cut: a.cut + b.cut,
    strayed: a.strayed + b.strayed,
    crashes: a.crashes + b.crashes,
    seconds: a.seconds + b.seconds,
    isComplete: a.isComplete && b.isComplete,
    failure: a.failure ?? b.failure,
  };
}

function report(t: Test, name: string, { failure, ...found }: Report): void {
  const { schedules, cut, strayed, crashes, isComplete, seconds } = found;
  const figures = [
    `${schedules} schedules${isComplete ? ', all there are' : ''}`,
    crashes > 0 ? `${crashes} with an end` : '',
    cut > 0 ? `${cut} begun in vain` : '',
    strayed > 0 ? `${strayed} strayed` : '',
    `${seconds.toFixed(1)} s`,
  ];
  t.ok(failure === undefined, `${name}: ${figures.filter(Boolean).join(', ')}`);
  if (failure !== undefined) t.comment(failure);
}

async function runAgain(t: Test, world: World, scenario: Scenario, again: string): Promise<void> {
  const [head = '', path = ''] = again.split('=');
  const end = /!(-?\d+)\.(\d+)$/.exec(head);
  const crash: Crash | undefined = end ? { operation: Number(end[1]), after: Number(end[2]) } : undefined;
  const outcome = await world.run(new Search(scenario.addsCommute).follow(path.split(',')), crash);
  t.comment(tell(scenario, outcome, crash));
  t.same(outcome.faults, []);
}

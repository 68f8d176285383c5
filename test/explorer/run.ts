// The explorer as a test: scenarios on one Redis or cluster, a few at a time. For each: schedules of its operations, those
// with the fewest preemptions first; in the full form schedules that are drawn; and for each step of each operation a schedule in which its
// server ends after that step and another one is asked the same again; the short form leaves out steps that other scenarios
// have, too. Numbers bound it, not seconds: every run does the same.
//
//   FAULTS=full                SCHEDULES (20,000) for each search, where there are as many
//   SEED=<number>              what is drawn, as a run prints it
//   SCENARIO=<part of a name>  only these
//   SCHEDULE='<name>=<steps>'  only this schedule, as a failure prints it

import type { Test } from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import type { TestRedis } from '../harness/redis.js';
import { explore, type Report, tell, wander } from './explorer.js';
import { type Crash, LEFT } from './play.js';
import type { Scenario } from './scenarios.js';
import { makeReady } from './scripts.js';
import { Search } from './search.js';
import { Watch } from './watch.js';
import { World } from './world.js';

const IS_FULL = process.env['FAULTS'] === 'full';
const AT_ONCE = 8;
const ALL = Number.POSITIVE_INFINITY;

/** For all of a test: no more than what stops a run that hangs. */
export const TIMEOUT_MS = IS_FULL ? 4 * 60 * 60_000 : 600_000;

/**
 * Schedules of a search: of a scenario that is not searched exhaustively, for each end of a server among the operations and
 * before them, and drawn ones.
 */
const [SEARCHED, WITH_END, AFTER_END, DRAWN] = IS_FULL
  ? [Number(process.env['SCHEDULES'] ?? 20_000), 2_000, 20_000, 500]
  : [8, 1, 4, 0];
/** Servers end after every one of so many steps: scenarios have most steps in common, and begin with different ones. */
const EVERY = IS_FULL ? 1 : 3;
const SEED = Number(process.env['SEED'] || Math.floor(Math.random() * 1e6));

export async function testScenarios(
  t: Test,
  redis: TestRedis,
  scenarios: readonly Scenario[],
): Promise<void> {
  await makeReady(redis.urls);
  const watch = await Watch.open(redis.urls);
  t.teardown(() => watch.close());
  const again = process.env['SCHEDULE'];
  const waiting = scenarios.filter(({ name }) =>
    again === undefined ? name.includes(process.env['SCENARIO'] ?? '') : again.split(/[=!]/)[0] === name,
  );
  const operations = Math.max(...waiting.map((scenario) => scenario.operations.length));
  const work = async (_: unknown, n: number) => {
    const world = await World.open(redis.urls, watch, `x${n}`, operations);
    try {
      for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift()) {
        if (again !== undefined) await runAgain(t, world, scenario, again);
        else if (scenario.left !== undefined)
          report(t, scenario.name, await exploreEnds(world, scenario, [LEFT], AFTER_END, 0, 1));
        else {
          const found = await explore(world, scenario, scenario.isExhaustive ? ALL : SEARCHED);
          report(t, scenario.name, found);
          if (scenario.isExhaustive && found.failure === undefined)
            t.ok(found.isComplete, `${scenario.name}: all there are`);
          if (DRAWN > 0) {
            const drawn = await wander(world, scenario, DRAWN, createRandom(SEED).next);
            report(t, `${scenario.name}, drawn under SEED=${SEED}`, drawn);
          }
          report(
            t,
            `${scenario.name}, servers that end`,
            await exploreEnds(
              world,
              scenario,
              changing(scenario),
              WITH_END,
              scenarios.indexOf(scenario),
              EVERY,
            ),
          );
        }
      }
    } finally {
      await world.close();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** The operations that change anything; in the short form the first of each kind. */
function changing({ operations }: Scenario): number[] {
  const kinds = operations.map((one) => one.do);
  return [...operations.keys()].filter((i) => {
    const kind = kinds[i] as (typeof kinds)[number];
    return !['read', 'list'].includes(kind) && (IS_FULL || kinds.indexOf(kind) === i);
  });
}

/**
 * One search for each step of these operations, after which their server ends: first all first steps, then all second ones.
 * @param most schedules of one search
 * @param first @param every steps that are left out: of so many only one, and which one
 */
async function exploreEnds(
  world: World,
  scenario: Scenario,
  operations: readonly number[],
  most: number,
  first: number,
  every: number,
): Promise<Report> {
  let sum: Report | undefined;
  let left = operations;
  for (let after = 1; left.length > 0 && sum?.failure === undefined; after++) {
    if ((after + first) % every !== 0) continue;
    const longer: number[] = [];
    for (const operation of left) {
      const found = await explore(world, scenario, most, { operation, after });
      sum = sum === undefined ? found : add(sum, found);
      if (found.crashes > 0) longer.push(operation);
    }
    left = longer;
  }
  return sum as Report;
}

function add(a: Report, b: Report): Report {
  return {
    schedules: a.schedules + b.schedules,
    cut: a.cut + b.cut,
    strayed: a.strayed + b.strayed,
    crashes: a.crashes + b.crashes,
    isComplete: a.isComplete && b.isComplete,
    failure: a.failure ?? b.failure,
  };
}

function report(t: Test, name: string, { failure, ...found }: Report): void {
  const { schedules, cut, strayed, crashes, isComplete } = found;
  const figures = [
    `${schedules} schedules${isComplete ? ', all there are' : ''}`,
    crashes > 0 ? `${crashes} with an end` : '',
    cut > 0 ? `${cut} begun in vain` : '',
    strayed > 0 ? `${strayed} strayed` : '',
  ];
  t.ok(failure === undefined, `${name}: ${figures.filter(Boolean).join(', ')}`);
  if (failure !== undefined) t.comment(failure);
}

async function runAgain(t: Test, world: World, scenario: Scenario, again: string): Promise<void> {
  const [head = '', path = ''] = again.split('=');
  const end = /!(-?\d+)\.(\d+)$/.exec(head);
  const crash: Crash | undefined = end ? { operation: Number(end[1]), after: Number(end[2]) } : undefined;
  const outcome = await world.run(scenario, new Search(scenario.addsCommute).follow(path.split(',')), crash);
  t.comment(tell(scenario, outcome, crash));
  t.same(outcome.faults, []);
}

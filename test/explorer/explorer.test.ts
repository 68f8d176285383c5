// Concurrent operations of one visitor, in the orders of their calls to Redis with the fewest preemptions: answers and end are
// those of some order of whole operations. SCENARIO=<part of a name> runs only these.

import t, { type Test } from 'tap';
import { loadScript } from '../../src/redis/scripts.js';
import { scriptNames } from '../harness/lua.js';
import { openRedis, startTestCluster, startTestRedis, type TestRedis } from '../harness/redis.js';
import { words } from './acts.js';
import { SCENARIOS, type Scenario } from './scenarios.js';
import { Search } from './search.js';
import { type Outcome, World } from './world.js';

const MAX_CONCURRENT_WORKERS = 8;
/** Orders of a scenario that is not searched exhaustively, and of one after each step of what was left half done. */
const [SEARCHED, AFTER_END] = [8, 2];
/** Stops a run that hangs, and is no limit for one that is slow. */
const TIMEOUT_MS = 600_000;

interface Report {
  readonly orders: number;
  readonly isComplete: boolean;
  readonly failure: string | undefined;
  /** False if no server ended: the operation had fewer steps. */
  readonly hasEnded: boolean;
}

/** @param most orders to run @param endAfter steps of the operation that is left half done */
async function explore(world: World, scenario: Scenario, most: number, endAfter?: number): Promise<Report> {
  const search = new Search(scenario.operations.length > 2 ? 1 : 2);
  let hasEnded = false;
  for (let orders = 0; orders < most; orders++) {
    const order = search.next();
    if (order === undefined) return { orders, isComplete: true, failure: undefined, hasEnded };
    const outcome = await world.run(scenario, order, endAfter);
    hasEnded ||= outcome.hasEnded;
    if (outcome.faults.length > 0)
      return { orders, isComplete: false, failure: describe(scenario, outcome), hasEnded };
  }
  return { orders: most, isComplete: false, failure: undefined, hasEnded };
}

/** Leaves the first operation half done after its first step, its second step, and so on. */
async function exploreEnds(world: World, scenario: Scenario): Promise<Report> {
  let orders = 0;
  for (let endAfter = 1; ; endAfter++) {
    const found = await explore(world, scenario, AFTER_END, endAfter);
    orders += found.orders;
    if (found.failure !== undefined || !found.hasEnded) return { ...found, orders };
  }
}

function describe({ name, given, left, operations }: Scenario, { faults, story }: Outcome): string {
  return [
    `${name}: given ${given.map(words).join(', ') || 'nothing'}${left ? `, and ${words(left)} left half done (L)` : ''}; then at once`,
    ...operations.map((act, i) => `  R${i} ${words(act)}`),
    'fails:',
    ...faults.map((fault) => `  ${fault}`),
    'steps (in {S} is the slot of S, PS is the profile that S made):',
    ...story.map((step) => `  ${step}`),
  ].join('\n');
}

/** Loads each script, since one that has to be sent twice is a step more. Nothing is kept on disk. */
async function loadScripts(url: string): Promise<void> {
  const client = openRedis(url);
  await client.config('SET', 'appendonly', 'no');
  for (const name of scriptNames()) await client.script('LOAD', loadScript(name).source);
  client.disconnect();
}

async function testScenarios(t: Test, { urls }: TestRedis, scenarios: readonly Scenario[]): Promise<void> {
  for (const url of urls) await loadScripts(url);
  const waiting = scenarios.filter(({ name }) => name.includes(process.env['SCENARIO'] ?? ''));
  const operations = Math.max(...waiting.map((scenario) => scenario.operations.length));
  const work = async (_: unknown, n: number) => {
    const world = await World.open(urls, `x${n}`, operations);
    try {
      for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift()) {
        const { name, isExhaustive } = scenario;
        const most = isExhaustive ? Number.POSITIVE_INFINITY : SEARCHED;
        const { orders, isComplete, failure } =
          scenario.left === undefined
            ? await explore(world, scenario, most)
            : await exploreEnds(world, scenario);
        t.equal(failure, undefined, `${name}: ${orders} orders`);
        if (isExhaustive) t.ok(isComplete, `${name}: all within the bound`);
      }
    } finally {
      await world.close();
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_WORKERS }, work));
}

t.setTimeout(TIMEOUT_MS);

t.test('concurrent operations end as if one came after the other', { timeout: TIMEOUT_MS }, async (t) =>
  testScenarios(t, await startTestRedis(t), SCENARIOS),
);

t.test('on a Redis Cluster they do, too, with people in three slots', { timeout: TIMEOUT_MS }, async (t) => {
  const some = SCENARIOS.filter(
    ({ isExhaustive, left, operations }) => !isExhaustive && left === undefined && operations.length === 2,
  );
  await testScenarios(t, await startTestCluster(t), some);
});

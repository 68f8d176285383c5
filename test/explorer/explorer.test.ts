// Concurrent operations of one visitor, in the orders of their calls to Redis that can differ in their outcome: answers and end are
// those of some order of whole operations. SCENARIO=<part of a name> runs only these; FAULTS=full runs every order.

import t, { type Test } from 'tap';
import { openRedis, startTestCluster, startTestRedis, type TestRedis } from '../harness/redis.js';
import { words } from './acts.js';
import { SCRIPTS } from './gate.js';
import { SCENARIOS, type Scenario } from './scenarios.js';
import { Search } from './search.js';
import { type Outcome, World } from './world.js';

const FULL = process.env['FAULTS'] === 'full';
const MAX_CONCURRENT_WORKERS = 8;
/** Orders of a scenario, and of one in which a server ends after a step. */
const MAX_ORDERS = Number(process.env['ORDERS'] ?? (FULL ? Number.POSITIVE_INFINITY : 8));
const MAX_ORDERS_TO_END = FULL ? Number.POSITIVE_INFINITY : 2;
/** Stops a run that hangs, and is no limit for one that is slow. */
const TIMEOUT_MS = FULL ? 14_400_000 : 600_000;

interface Report {
  readonly orders: number;
  readonly isComplete: boolean;
  readonly failure: string | undefined;
  /** False if no server ended: the operation had fewer steps. */
  readonly hasEnded: boolean;
}

/** @param most orders to run @param endAfter steps of the operation that is left half done */
async function explore(world: World, scenario: Scenario, most: number, endAfter?: number): Promise<Report> {
  const search = new Search();
  let hasEnded = false;
  for (let orders = 0; ; ) {
    const order = orders < most ? search.next() : undefined;
    if (order === undefined) return { orders, isComplete: orders < most, failure: undefined, hasEnded };
    const outcome = await world.run(scenario, order, endAfter);
    if (outcome.isNew) orders++;
    if (outcome.isNew) search.learn(order);
    hasEnded ||= outcome.hasEnded;
    if (outcome.faults.length > 0)
      return { orders, isComplete: false, failure: describe(scenario, outcome), hasEnded };
  }
}

/** Leaves the first program half done after its first step, its second step, and so on. */
async function exploreEnds(world: World, scenario: Scenario): Promise<Report> {
  let [orders, isComplete] = [0, true];
  for (let endAfter = 1; ; endAfter++) {
    const found = await explore(world, scenario, MAX_ORDERS_TO_END, endAfter);
    orders += found.orders;
    isComplete &&= found.isComplete;
    if (found.failure !== undefined || !found.hasEnded) return { ...found, orders, isComplete };
  }
}

function describe({ name, given, programs }: Scenario, { faults, story }: Outcome): string {
  return [
    `${name}: given ${given.map(words).join(', ') || 'nothing'}; then at once`,
    ...programs.map((acts, i) => `  R${i} ${acts.map(words).join(', ')}`),
    'fails:',
    ...faults.map((fault) => `  ${fault}`),
    'steps (in {S} is the slot of S, PS is the profile of S):',
    ...story.map((step) => `  ${step}`),
  ].join('\n');
}

/** Loads each script, since one that has to be sent twice is a step more. Nothing is kept on disk. */
async function loadScripts(url: string): Promise<void> {
  const client = openRedis(url);
  await client.config('SET', 'appendonly', 'no');
  for (const { source } of SCRIPTS) await client.script('LOAD', source);
  client.disconnect();
}

async function testScenarios(t: Test, { urls }: TestRedis, scenarios: readonly Scenario[]): Promise<void> {
  for (const url of urls) await loadScripts(url);
  const waiting = scenarios.filter(({ name }) => name.includes(process.env['SCENARIO'] ?? ''));
  const programs = Math.max(...waiting.map((scenario) => scenario.programs.length));
  const sum = { scenarios: waiting.length, orders: 0, complete: 0, failed: 0 };
  const work = async (_: unknown, n: number) => {
    const world = await World.open(urls, `x${n}`, programs);
    try {
      for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift()) {
        const { orders, isComplete, failure } = scenario.ends
          ? await exploreEnds(world, scenario)
          : await explore(world, scenario, MAX_ORDERS);
        sum.orders += orders;
        if (isComplete) sum.complete++;
        if (failure !== undefined) sum.failed++;
        t.equal(failure, undefined, `${scenario.name}: ${orders} orders${isComplete ? ', all' : ''}`);
      }
    } finally {
      await world.close();
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_WORKERS }, work));
  t.comment(JSON.stringify(sum));
}

t.setTimeout(TIMEOUT_MS);

t.test('concurrent operations end as if one came after the other', { timeout: TIMEOUT_MS }, async (t) =>
  testScenarios(t, await startTestRedis(t), SCENARIOS),
);

t.test('on a Redis Cluster they do, too, with people in three slots', { timeout: TIMEOUT_MS }, async (t) => {
  const some = SCENARIOS.filter((_, i) => i % 16 === 0);
  await testScenarios(t, await startTestCluster(t), some);
});

// Concurrent operations of one visitor, in all orders of their calls to Redis that can differ in their
// outcome: the answers and the end must be those of some order of whole operations. SCENARIO=<part of a name>
// runs only the scenarios with this text; FAULTS=full runs every order.

import t, { type Test } from 'tap';
import { openRedis, startTestCluster, startTestRedis, type TestRedis } from '../harness/redis.js';
import { SCRIPTS } from './gate.js';
import { SCENARIOS, type Scenario } from './scenarios.js';
import { Search } from './search.js';
import { World } from './world.js';

const FULL = process.env['FAULTS'] === 'full';
const MAX_CONCURRENT_WORKERS = 8;
/** Orders of a scenario of two acts, and of one in which a server ends after a given step. */
const MAX_ORDERS = FULL ? Number.POSITIVE_INFINITY : Number(process.env['ORDERS'] ?? 6);
const MAX_ORDERS_TO_END = FULL ? Number.POSITIVE_INFINITY : 1;
/** Stops a run that hangs; far longer than a slow run takes. */
const TIMEOUT_MS = FULL ? 14_400_000 : 900_000;
/** Runs one in so many of the scenarios in which a server ends, and of those on a cluster. */
const [ENDING, ON_CLUSTER] = FULL ? [1, 1] : [3, 16];

interface Found {
  orders: number;
  isComplete: boolean;
  /** The server has ended, so the program had enough steps. */
  hasEnded: boolean;
  failure?: string;
}

/** @param endAfter steps of the first program after which its server ends */
async function explore(world: World, scenario: Scenario, endAfter?: number): Promise<Found> {
  const search = new Search();
  const found: Found = { orders: 0, isComplete: true, hasEnded: false };
  const most = endAfter === undefined ? (scenario.isLong ? 8 : 1) * MAX_ORDERS : MAX_ORDERS_TO_END;
  for (let order = search.next(); order !== undefined; order = search.next()) {
    if (found.orders >= most) return { ...found, isComplete: false };
    const outcome = await world.run(scenario, order, endAfter);
    found.hasEnded ||= outcome.hasEnded;
    if (outcome.faults.length > 0) return { ...found, failure: describe(scenario, outcome) };
    if (outcome.isNew) found.orders++;
    if (outcome.isNew) search.learn(order);
  }
  return found;
}

function describe(
  { name, given, programs }: Scenario,
  { faults, story }: Awaited<ReturnType<World['run']>>,
): string {
  return [
    `${name}: given ${given.map(({ words }) => words).join(', ') || 'nothing'}; then at once`,
    ...programs.map((acts, i) => `  R${i} ${acts.map(({ words }) => words).join(', ')}`),
    'fails:',
    ...faults.map((fault) => `  ${fault}`),
    'steps (in {S} is the slot of S, PS is the profile of S):',
    ...story.map((step) => `  ${step}`),
  ].join('\n');
}

async function testScenarios(t: Test, { urls }: TestRedis, scenarios: readonly Scenario[]): Promise<void> {
  for (const url of urls) {
    const client = openRedis(url);
    await client.config('SET', 'appendonly', 'no');
    // A script that Redis doesn't know is sent twice, which would be one more step.
    for (const { source } of SCRIPTS) await client.script('LOAD', source);
    client.disconnect();
  }
  const waiting = scenarios.filter(({ name }) => name.includes(process.env['SCENARIO'] ?? ''));
  const most = Math.max(...waiting.map(({ programs }) => programs.length));
  const [all, incomplete] = [waiting.length, new Set<Scenario>()];
  let orders = 0;
  const work = async (_: unknown, n: number) => {
    const world = await World.open(urls, `x${n}`, most);
    for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift())
      for (let endAfter = scenario.ends ? 1 : undefined; ; endAfter = endAfter && endAfter + 1) {
        const found = await explore(world, scenario, endAfter);
        orders += found.orders;
        if (!found.isComplete) incomplete.add(scenario);
        t.equal(found.failure, undefined, `${scenario.name}${endAfter ? `, after step ${endAfter}` : ''}`);
        if (found.failure !== undefined || !found.hasEnded) break;
      }
    await world.close();
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT_WORKERS }, work));
  t.comment(`${all} scenarios, ${orders} orders; of ${all - incomplete.size} scenarios these are all`);
}

t.setTimeout(TIMEOUT_MS);

t.test('concurrent operations end as if one came after the other', { timeout: TIMEOUT_MS }, async (t) => {
  const some = SCENARIOS.filter(({ ends }, i) => !ends || i % ENDING === 0);
  await testScenarios(t, await startTestRedis(t), some);
});

t.test(
  'concurrent operations on a Redis Cluster end as if one came after the other',
  { timeout: TIMEOUT_MS },
  async (t) => {
    const some = SCENARIOS.filter((_, i) => i % ON_CLUSTER === 0);
    await testScenarios(t, await startTestCluster(t), some);
  },
);

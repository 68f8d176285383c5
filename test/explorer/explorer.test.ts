// Orders of the steps of two to four operations, for each scenario: all of them in the scenarios that say so, and in the
// others those with the fewest preemptions. On a cluster, where operations take more steps, those that go to several slots.

import t from 'tap';
import { startTestCluster, startTestRedis } from '../harness/redis.js';
import { TIMEOUT_MS, testScenarios } from './run.js';
import { SCENARIOS } from './scenarios.js';

const IS_FULL = process.env['FAULTS'] === 'full' || process.env['SCHEDULE'] !== undefined;

t.setTimeout(TIMEOUT_MS);

t.test('one Redis', { timeout: TIMEOUT_MS }, async (t) =>
  testScenarios(t, await startTestRedis(t), SCENARIOS),
);

t.test('a Redis Cluster of three masters', { timeout: TIMEOUT_MS }, async (t) =>
  testScenarios(
    t,
    await startTestCluster(t),
    SCENARIOS.filter(({ onCluster }) => onCluster || IS_FULL).map((one) => ({ ...one, isExhaustive: false })),
  ),
);

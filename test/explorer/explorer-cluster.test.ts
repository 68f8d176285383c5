// As explorer.test.ts, on a Redis Cluster, where operations take more steps: those scenarios that go to several slots.

import t from 'tap';
import { startTestCluster } from '../harness/redis.js';
import { TIMEOUT_MS, testScenarios } from './run.js';
import { SCENARIOS } from './scenarios.js';

const IS_FULL = process.env['FAULTS'] === 'full' || process.env['SCHEDULE'] !== undefined;

t.test('a Redis Cluster of three masters', { timeout: TIMEOUT_MS }, async (t) =>
  testScenarios(
    t,
    await startTestCluster(t),
    SCENARIOS.filter(({ onCluster }) => onCluster || IS_FULL).map((one) => ({ ...one, isExhaustive: false })),
  ),
);

// Orders of the steps of two to four operations, for each scenario, on one Redis: all of them in the scenarios that say so,
// and in the others those with the fewest preemptions.

import t from 'tap';
import { startTestRedis } from '../harness/redis.js';
import { TIMEOUT_MS, testScenarios } from './run.js';
import { SCENARIOS } from './scenarios.js';

t.test('one Redis', { timeout: TIMEOUT_MS }, async (t) =>
  testScenarios(t, await startTestRedis(t), SCENARIOS),
);

// kill -9 of every part, again and again at random moments, under load: what was acknowledged is there, once.
// FAULTS=full: 50 times the flusher, 20 times ClickHouse and the workers, 10 times Redis. The moments are drawn from
// SEED, which each test's name tells.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import { FULL, kill, openStage, type Part, SEED } from './stage.js';

const stage = await openStage({ workers: 2, fsync: 'always' });
t.teardown(() => stage.stop());

const KILLS: readonly { what: string; parts: readonly Part[]; times: number }[] = [
  { what: 'the flusher', parts: [stage.flush], times: FULL ? 50 : 8 },
  { what: 'ClickHouse', parts: [stage.clickhouse], times: FULL ? 20 : 4 },
  { what: 'a worker', parts: stage.workers, times: FULL ? 20 : 4 },
  { what: 'Redis, with its file synced before it answers', parts: [stage.redis], times: FULL ? 10 : 4 },
];

const loads: ReturnType<typeof stage.load>[] = [];
for (const [round, { what, parts, times }] of KILLS.entries()) {
  t.test(`kill -9 of ${what}, ${times} times, SEED=${SEED}`, { timeout: 600_000 }, async (t) => {
    const random = createRandom(SEED + round);
    const load = stage.load({ seed: SEED + round, name: `k${round}` });
    loads.push(load);
    for (let i = 0; i < times; i++) {
      await sleep(100 + random.next() * 300);
      const part = parts[i % parts.length] as Part;
      await kill(part);
      await part.start();
      await load.untilServed();
    }
    await sleep(300);
    await load.stop();
    t.ok(load.acknowledged > times * 5, String(load));
    await stage.exact(t, ...loads);
  });
}

// kill -9 of every part, again and again at random moments, under load: what was acknowledged is there, once.
// FAULTS=full: 50 times the flusher, 20 times ClickHouse and the workers, 10 times Redis. The moments are drawn from
// SEED, which each test's name tells.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import { FULL, kill, openService, type Part, SEED } from './service.js';

const service = await openService({ workers: 2, fsync: 'always' });
t.teardown(() => service.stop());

const KILLS: readonly { what: string; parts: readonly Part[]; times: number }[] = [
  { what: 'the flusher', parts: [service.flush], times: FULL ? 50 : 8 },
  { what: 'ClickHouse', parts: [service.clickhouse], times: FULL ? 20 : 4 },
  { what: 'a worker', parts: service.workers, times: FULL ? 20 : 4 },
  { what: 'Redis, with its file synced before it answers', parts: [service.redis], times: FULL ? 10 : 4 },
];

const loads: ReturnType<typeof service.load>[] = [];
for (const [round, { what, parts, times }] of KILLS.entries()) {
  t.test(`kill -9 of ${what}, ${times} times, SEED=${SEED}`, { timeout: 600_000 }, async (t) => {
    const random = createRandom(SEED + round);
    const load = service.load({ seed: SEED + round, name: `k${round}` });
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
    await service.exact(t, ...loads);
  });
}

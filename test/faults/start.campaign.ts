// kill -9 of `wishmeter start` itself, under load, and a start on the same data at once: nothing is lost or twice.
// FAULTS=full: 5 times. (kills.test.ts kills all processes of the service at once.)

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import { freePort } from '../../bench/servers/ports.js';
import { nothingLeft, started } from '../cli/started.js';
import { tempDir } from '../cli/wishmeter.js';
import { needsProc } from '../harness/needs.js';
import { Load } from './load.js';
import { expectExact } from './reconcile.js';
import { FULL, KEY, SEED } from './service.js';

const TIMES = FULL ? 5 : 2;

t.test(`kill -9 of start, ${TIMES} times, SEED=${SEED}`, { timeout: 300_000, ...needsProc() }, async (t) => {
  const random = createRandom(SEED);
  const dir = await tempDir(t);
  const env = {
    PORT: String(await freePort()),
    CLICKHOUSE_PORT: String(await freePort()),
    DASHBOARD_PORT: '0',
    API_KEYS: KEY,
    WORKERS: '2',
    REDIS_FSYNC: 'always',
  };
  const url = `http://127.0.0.1:${env.PORT}`;
  let service = await started(t, dir, env);
  const load = new Load({ url: () => url, key: KEY, seed: SEED, connections: 24, restMs: 5 });
  for (let i = 0; i < TIMES; i++) {
    await sleep(500 + random.next() * 500);
    service.running.child.kill('SIGKILL');
    await service.running.ended;
    service = await started(t, dir, env);
    await load.untilServed();
  }
  await load.untilServed(200);
  await load.stop();
  t.comment(String(load));
  const redisUrl = `redis://localhost/?path=${encodeURIComponent(`${dir}/redis/redis.sock`)}`;
  await expectExact(t, [load], { url, key: KEY, redisUrl, clickhouseUrl: service.clickhouseUrl });
  t.equal((await service.stop()).code, 0);
  await nothingLeft(dir);
});

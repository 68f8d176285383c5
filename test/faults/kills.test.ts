// No acknowledged write is lost or doubled if processes die under load. FAULTS=full: all faults, ten times.
// Titles show the SEED.

import { cp, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createRandom } from '../../bench/demo/random.js';
import { type Ended, spawnWishmeter } from '../cli/wishmeter.js';
import { connectTo } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { SERVER_FAULTS } from './faults.js';
import type { Load } from './load.js';
import { FULL, MOST_PATIENT_MS, openService, programPart, SEED } from './service.js';

/** Kills of the flusher alone and of ClickHouse alone are in flusher.test.ts, at exact points. */
const SHORT = ['kill -9 a worker', 'kill -9 Redis', 'kill -9 everything', 'SCRIPT FLUSH'];
const TIMES = FULL ? 10 : 1;
const random = createRandom(SEED);
const service = await openService(t, { REDIS_TIMEOUT_MS: MOST_PATIENT_MS });
const loads: Load[] = [];
/** @param name begins every id of the load, so that a lost id names its test */
function startLoad(name: string): Load {
  const load = service.load({ seed: SEED + loads.length, name });
  loads.push(load);
  return load;
}
const faults = SERVER_FAULTS.filter(({ name }) => FULL || SHORT.includes(name));
t.ok(faults.length >= SHORT.length, 'each of the short form is there');
for (const fault of faults) {
  const title = `the service recovers from "${fault.name}", times: ${TIMES}, SEED=${SEED}`;
  t.test(title, { timeout: 900_000 }, async () => {
    const load = startLoad(`f${loads.length}`);
    for (let i = 0; i < TIMES; i++) {
      await load.untilServed(50 + Math.floor(random.next() * 100));
      const undo = await fault.begin({ service, random });
      await sleep(random.next() * Math.min(fault.ms, FULL ? fault.ms : 500));
      await undo();
      await load.untilServed(50);
    }
    await load.stop();
  });
}
t.test('a service whose Redis loses its data', async (t) => {
  const redis = connectTo(t, service.redisUrl);
  redis.on('error', () => {}); // Redis is stopped meanwhile
  const databases = { REDIS_URL: service.redisUrl, CLICKHOUSE_URL: service.clickhouseUrl };
  async function status(): Promise<number> {
    const query = 'sessionId=probe&productHandle=x';
    return (await fetch(`${service.url}/product/visit?${query}`, { headers: { 'x-api-key': service.key } }))
      .status;
  }
  async function refusedFlush(): Promise<Ended> {
    const { child, stdout, ended } = spawnWishmeter({ args: ['flush'], env: databases });
    await until('flush is refused', () => {
      if (!stdout().includes('"msg":"flushing"')) return child.exitCode !== null;
      child.kill('SIGKILL');
      throw new Error('flush was not refused');
    });
    return await ended;
  }
  t.test(
    'the service does not write to a Redis that restarts empty, and goes on when its data are back',
    async (t) => {
      const folder = join(service.dir, 'redis');
      const kept = join(service.dir, 'kept');
      const load = startLoad('lost');
      await load.untilServed(10);
      await service.redis.stop();
      await rename(folder, kept);
      await mkdir(folder);
      await service.redis.start();

      const reason = /^Not ready: Redis no longer holds the deployment that this process was started with/;
      await until('/readyz says so', async () => {
        const answer = await fetch(`${service.url}/readyz`);
        return answer.status === 503 && reason.test(((await answer.json()) as { error: string }).error);
      });
      await until('flush has ended', () => service.flush.pid === undefined);
      await load.untilRefused(50);
      const logged = service.logs().filter((line) => line.includes('no longer holds the deployment'));
      t.ok(logged.length < 15, `the log says so ${logged.length} times, and not of each refused request`);
      t.match(logged[0], /"level":50/);
      await until('this test is connected again', () => redis.status === 'ready');
      t.same(await redis.keys('*'), [], 'nothing was written');
      t.match(await refusedFlush(), {
        code: 1,
        stderr: /Redis is empty, but ClickHouse has events of an earlier one.*NEW_DEPLOYMENT=accept/,
      });
      t.same(await redis.keys('*'), [], 'and no salt was drawn');

      await service.redis.stop();
      await rm(folder, { recursive: true });
      await cp(kept, folder, { recursive: true, filter: (path) => !path.endsWith('.sock') });
      await service.redis.start();
      await load.untilServed(10);
      await service.flush.start();
      await load.stop();
    },
  );
  t.test('every acknowledged event and visit is there once after all kills', async (t) => {
    for (const load of loads) t.comment(String(load));
    t.same(await service.faultsOf(loads), []);
  });

  t.test(
    'serve and flush notice another salt behind open connections, and serve notices when it is set back',
    async () => {
      await until('this test is connected again', () => redis.status === 'ready');
      const meta = await redis.hgetall('wm:meta');
      await redis.hset('wm:meta', 'salt', 'f'.repeat(64));
      await until('serve refuses', async () => (await status()) === 503);
      await until('flush has ended', () => service.flush.pid === undefined);
      await redis.hset('wm:meta', meta);
      await until('serve serves', async () => (await status()) === 200);
    },
  );
  t.test('flush refuses a Redis with another salt until NEW_DEPLOYMENT accepts it', async (t) => {
    for (const worker of service.workers) await worker.stop();
    await redis.flushall();
    const run = async (command: 'serve' | 'flush', more = {}) => {
      const part = programPart(command, command, { ...databases, PORT: '0', HOST: '127.0.0.1', ...more });
      await part.start();
      await part.stop();
    };
    await run('serve');
    t.match(await refusedFlush(), {
      code: 1,
      stderr: /Redis holds another deployment, but ClickHouse has events of an earlier one/,
    });
    await run('flush', { NEW_DEPLOYMENT: 'accept' });
    await run('flush');
  });
});

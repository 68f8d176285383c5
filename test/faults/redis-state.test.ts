// Redis loses its data while the service runs under load: requests are refused, and nothing is written under a salt that
// the deployment does not have.

import { cp, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { type Ended, spawnWishmeter, until } from '../cli/wishmeter.js';
import { connectTo } from '../harness/redis.js';
import { MOST_PATIENT_MS, openService, programPart } from './service.js';

const service = await openService(t, { env: { REDIS_TIMEOUT_MS: MOST_PATIENT_MS } });
const redis = connectTo(t, service.redisUrl);
redis.on('error', () => {}); // it is stopped meanwhile
const databases = { REDIS_URL: service.redisUrl, CLICKHOUSE_URL: service.clickhouseUrl };

/** Of a request that has to reach Redis. */
async function status(): Promise<number> {
  const query = 'sessionId=probe&productHandle=x';
  return (await fetch(`${service.url}/product/visit?${query}`, { headers: { 'x-api-key': service.key } }))
    .status;
}

/** How `flush` ends that must not begin. */
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
  'a Redis that restarts empty is not written to, flush refuses it, and its data come back',
  async (t) => {
    const folder = join(service.dir, 'redis');
    const kept = join(service.dir, 'kept');
    const load = service.load();
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
    t.equal(logged.length, 1, 'the log says so once');
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
    await service.exact(t, load);
  },
);

t.test('FLUSHALL under connections that stay is noticed, and its undoing, too', async () => {
  await until('this test is connected again', () => redis.status === 'ready');
  const meta = await redis.hgetall('wm:meta');
  await redis.flushall();
  await until('serve refuses', async () => (await status()) === 503);
  await until('flush has ended', () => service.flush.pid === undefined);
  await redis.hset('wm:meta', meta);
  await until('serve serves', async () => (await status()) === 200);
});

t.test('a Redis with another salt is refused until it is accepted', async (t) => {
  await service.workers[0]?.stop();
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

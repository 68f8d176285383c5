// Redis loses its scripts, its memory, its data, under load: refused at most, never wrong, and never under a
// salt that no process remembers.

import { cp, mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { until, wishmeter } from '../cli/wishmeter.js';
import { connectTo } from '../harness/dump.js';
import { FULL, MOST_PATIENT_MS, openService, programPart } from './service.js';

const service = await openService({ env: { REDIS_TIMEOUT_MS: MOST_PATIENT_MS } });
t.teardown(() => service.stop());
const loads: ReturnType<typeof service.load>[] = [];

t.test('SCRIPT FLUSH every 100 ms goes unnoticed', async (t) => {
  const redis = connectTo(service.redisUrl);
  t.teardown(() => redis.disconnect());
  const load = service.load({ seed: 1, name: 'f' });
  loads.push(load);
  const times = FULL ? 300 : 40;
  for (let i = 0; i < times; i++) {
    await redis.script('FLUSH');
    await sleep(100);
  }
  await load.stop();
  t.same(Object.keys(load.answers), ['200'], `${times} times, ${load}`);
  await service.exact(t, ...loads);
});

t.test('maxmemory reached: 503, the flusher goes on, and all is well once there is room', async (t) => {
  const redis = connectTo(service.redisUrl);
  t.teardown(() => redis.disconnect());
  const load = service.load({ seed: 2, name: 'm' });
  loads.push(load);
  await sleep(1_000);
  const served = load.acknowledged;
  for (let i = 0; i < (FULL ? 20 : 4); i++) {
    await redis.config('SET', 'maxmemory', '1');
    await sleep(500);
    await until('many are refused', () => (load.answers['503'] ?? 0) > 15 * (i + 1));
    await redis.config('SET', 'maxmemory', '0');
    await load.untilServed();
    await sleep(200);
  }
  await load.stop();
  t.ok(served > 0 && (load.answers['503'] ?? 0) > 50, String(load));
  t.same(Object.keys(load.answers).sort(), ['200', '503']);
  await service.exact(t, ...loads);
});

t.test(
  'Redis restarted empty: no process writes to it, flush refuses it, and its data come back',
  async (t) => {
    const folder = join(service.dir, 'redis');
    const kept = join(service.dir, 'kept');
    const load = service.load({ seed: 3, name: 'r' });
    loads.push(load);
    await load.untilServed();
    await service.redis.stop();
    await rename(folder, kept);
    await mkdir(folder);
    await service.redis.start();

    const reason = /^Not ready: Redis no longer holds the deployment that this process was started with/;
    await until('readyz tells', async () => {
      const answer = await fetch(`${service.url}/readyz`);
      return answer.status === 503 && reason.test(((await answer.json()) as { error: string }).error);
    });
    await until('flush has ended', () => service.flush.pid === undefined);
    const before = load.answers['503'] ?? 0;
    await until('refusals', () => (load.answers['503'] ?? 0) > before + 50);
    const told = service.logs().filter((line) => line.includes('no longer holds the deployment'));
    t.equal(told.length, 1, 'the log says so, once');
    t.match(told[0], /"level":50/);

    const redis = connectTo(service.redisUrl);
    t.teardown(() => redis.disconnect());
    t.same(await redis.keys('*'), [], 'nothing was written to it');
    const env = { REDIS_URL: service.redisUrl, CLICKHOUSE_URL: service.clickhouseUrl };
    const refused = await wishmeter({ args: ['flush'], env });
    t.equal(refused.code, 1);
    t.match(
      refused.stderr,
      /Redis is empty, but ClickHouse has events of an earlier one.*NEW_DEPLOYMENT=accept/,
    );
    t.same(await redis.keys('*'), [], 'and no salt was drawn');

    await service.redis.stop();
    await rm(folder, { recursive: true });
    await cp(kept, folder, { recursive: true, filter: (path) => !path.endsWith('.sock') });
    await service.redis.start();
    await load.untilServed();
    await service.flush.start();
    await sleep(300);
    await load.stop();
    t.same(Object.keys(load.answers).sort(), ['200', '503'], String(load));
    await service.exact(t, ...loads);
  },
);

t.test(
  'a Redis with another salt is refused, unless that is accepted, and then it is the known one',
  async (t) => {
    await service.workers[0]?.stop();
    await service.flush.stop();
    const redis = connectTo(service.redisUrl);
    t.teardown(() => redis.disconnect());
    await redis.flushall();
    const env = {
      REDIS_URL: service.redisUrl,
      CLICKHOUSE_URL: service.clickhouseUrl,
      PORT: '0',
      HOST: '127.0.0.1',
    };
    const run = async (command: 'serve' | 'flush', more = {}) => {
      const part = programPart(command, command, { ...env, ...more });
      await part.start();
      await part.stop();
    };
    await run('serve');
    const refused = await wishmeter({ args: ['flush'], env });
    t.match(refused, {
      code: 1,
      stderr: /Redis holds another deployment, but ClickHouse has events of an earlier one/,
    });
    await run('flush', { NEW_DEPLOYMENT: 'accept' });
    await run('flush');
  },
);

t.test('FLUSHALL under connections that stay: noticed within 10 s, and its undoing, too', async (t) => {
  const redis = connectTo(service.redisUrl);
  t.teardown(() => redis.disconnect());
  const port = await freePort();
  const env = {
    REDIS_URL: service.redisUrl,
    CLICKHOUSE_URL: service.clickhouseUrl,
    HOST: '127.0.0.1',
    PORT: String(port),
  };
  const serve = programPart('serve', 'serve', env);
  const flush = programPart('flush', 'flush', env);
  await Promise.all([serve.start(), flush.start()]);
  t.teardown(() => Promise.all([serve.stop(), flush.stop()]));
  const visit = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/product/visit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ identity: { sessionId: 's' }, productHandle: 'x' }),
    });
    return answer.status;
  };
  t.equal(await visit(), 200);
  const meta = await redis.hgetall('wm:meta');
  const noticed = async (what: string, holds: () => Promise<boolean> | boolean) => {
    const began = performance.now();
    await until(what, holds);
    const ms = Math.round(performance.now() - began);
    t.ok(ms < 10_000, `${what} after ${ms} ms`);
  };
  await redis.flushall();
  await noticed('serve refuses', async () => (await visit()) === 503);
  await noticed('flush has ended', () => flush.pid === undefined);
  await redis.del('wm:meta');
  await redis.hset('wm:meta', meta);
  await noticed('serve serves', async () => (await visit()) === 200);
});

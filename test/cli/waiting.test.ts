// Processes that start before their databases, as after a reboot: they wait, say so, answer probes meanwhile, stop when they are
// asked to, and go on when the databases are there. What is wrong in a setting still ends them at once.

import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { startRedisServer } from '../deploy/programs.js';
import { KEY } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { ask } from './client.js';
import { type Running, runWishmeter, tempDir, until, wishmeter } from './wishmeter.js';

const TOKEN = 'a-token-0123456789';
const SERVE = { HOST: '127.0.0.1', DRAIN_MS: '0', REDIS_TIMEOUT_MS: '900', API_KEYS: KEY };

const logged = (running: Running, pattern: RegExp) =>
  until(`${pattern}`, () => pattern.test(running.stdout()));
const times = (running: Running, pattern: RegExp) => running.stdout().match(pattern)?.length;

async function stops({ child, ended }: Running): Promise<object> {
  child.kill('SIGTERM');
  const { code, signal, stderr } = await ended;
  return { code, signal, stderr };
}
const WELL = { code: 0, signal: null, stderr: '' };

/** The status of a path, and what it says. */
async function probe(port: number, path: string) {
  const { status, body } = await ask(port, 'GET', path);
  return { ...JSON.parse(body), status };
}
const up = (port: number) =>
  until('it is up', () =>
    probe(port, '/healthz').then(
      ({ status }) => status === 200,
      () => false,
    ),
  );

async function redisAt(t: Test, port: number) {
  const redis = await startRedisServer(await tempDir(t), port, ['--appendonly', 'yes']);
  t.teardown(() => redis.stop());
}

t.test('serve waits for Redis', async (t) => {
  const [port, redis] = [await freePort(), await freePort()];
  const env = { ...SERVE, PORT: String(port), REDIS_URL: `redis://127.0.0.1:${redis}` };
  const running = runWishmeter(t, { args: ['serve'], env });
  await up(port);
  const notReady = {
    status: 503,
    error: /^Not ready: Redis does not answer: .*ECONNREFUSED/,
    code: 'unavailable',
  };
  t.match(await probe(port, '/readyz'), notReady);
  const body = JSON.stringify({ identity: { sessionId: 's' }, productHandle: 'red-shoe' });
  const visit = () => ask(port, 'POST', '/product/visit', { body });
  const refused = await visit();
  t.match(refused, { status: 503, headers: { 'retry-after': '1', 'x-request-id': /./ } });
  t.match(JSON.parse(refused.body), { code: 'unavailable' });
  await redisAt(t, redis);
  await until(
    'it is ready',
    async () => (await probe(port, '/readyz').catch(() => ({ status: 0 }))).status === 200,
  );
  t.equal((await visit()).status, 200);
  t.equal(times(running, /"msg":"waiting for Redis"/g), 1, 'once, not for each try');
  t.match(running.stdout(), /"reason":"Redis does not answer: .*"msg":"Redis answers".*"msg":"serving"/s);
  t.same(await stops(running), WELL);
});

t.test('flush waits for ClickHouse and Redis', async (t) => {
  const [port, redis] = [await freePort(), await freePort()];
  const clickhouse = await startTestClickHouse(t);
  const env = {
    HOST: '127.0.0.1',
    FLUSH_METRICS_PORT: String(port),
    REDIS_URL: `redis://127.0.0.1:${redis}`,
    CLICKHOUSE_URL: 'http://127.0.0.1:1',
  };
  const early = runWishmeter(t, { args: ['flush'], env });
  await up(port);
  await logged(early, /"msg":"waiting for ClickHouse"/);
  t.match(await probe(port, '/readyz'), { status: 503, error: /^Not ready: ClickHouse does not answer: / });
  t.same(await stops(early), WELL, 'a signal ends it while it waits');

  const running = runWishmeter(t, { args: ['flush'], env: { ...env, CLICKHOUSE_URL: clickhouse.url } });
  await logged(running, /"msg":"waiting for Redis"/);
  t.match(await probe(port, '/readyz'), { status: 503, error: /^Not ready: Redis does not answer: / });
  await redisAt(t, redis);
  await logged(running, /"msg":"flushing"/);
  t.match(await probe(port, '/readyz'), { status: 200 });
  t.same(await stops(running), WELL);
});

t.test('deliver waits for Redis', async (t) => {
  const redis = await freePort();
  const env = { REDIS_URL: `redis://127.0.0.1:${redis}` };
  const running = runWishmeter(t, { args: ['deliver'], env });
  await logged(running, /"msg":"waiting for Redis"/);
  await redisAt(t, redis);
  await logged(running, /"msg":"delivering"/);
  t.same(await stops(running), WELL);
});

t.test('the dashboard is up before ClickHouse is', async (t) => {
  const port = await freePort();
  const env = { DASHBOARD_PORT: String(port), DASHBOARD_TOKEN: TOKEN, CLICKHOUSE_URL: 'http://127.0.0.1:1' };
  const running = runWishmeter(t, { args: ['dashboard'], env });
  await up(port);
  t.match(await probe(port, '/readyz'), { status: 503, error: /^Not ready: ClickHouse does not answer: / });
  await logged(running, /"msg":"waiting for ClickHouse"/);
  t.same(await stops(running), WELL);
});

t.test('what is wrong in a setting ends them at once, with a sentence', async (t) => {
  const redis = await startTestRedis(t);
  await connectTo(t, redis.url).call('ACL', 'SETUSER', 'wm', 'on', '>secret', '~*', '&*', '+@all');
  const clickhouse = await startTestClickHouse(t);
  const REDIS_URL = redis.url.replace('//', '//wm:wrong@');
  const wrong = new URL(clickhouse.url);
  wrong.password = 'wrong';
  const CLICKHOUSE_URL = wrong.href;
  const shown = { DASHBOARD_PORT: '0', DASHBOARD_TOKEN: TOKEN };
  for (const [command, env, sentence] of [
    ['serve', { ...SERVE, PORT: '0', REDIS_URL }, /WRONGPASS/],
    ['deliver', { REDIS_URL }, /WRONGPASS/],
    ['flush', { REDIS_URL, CLICKHOUSE_URL: clickhouse.url }, /WRONGPASS/],
    ['flush', { REDIS_URL: redis.url, CLICKHOUSE_URL }, /Authentication failed/i],
    ['dashboard', { ...shown, CLICKHOUSE_URL }, /Authentication failed/i],
  ] as const) {
    const { code, stderr } = await wishmeter({ args: [command], env });
    t.equal(code, 1, command);
    t.match(stderr, /^wishmeter: [^\n]+\.\n$/);
    t.match(stderr, sentence);
  }
});

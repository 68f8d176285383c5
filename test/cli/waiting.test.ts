// Processes wait for their databases and answer probes; the folder's lock and key, the ports, and the order of a shutdown.

import { chmod, chown, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ownApiKey } from '../../src/commands/start/api-key.js';
import { makeFolder } from '../../src/commands/start/folder.js';
import { lockFolder } from '../../src/commands/start/lock.js';
import { checkPorts } from '../../src/commands/start/ports.js';
import { shutdown } from '../../src/commands/start/shutdown.js';
import { startRedisServer } from '../deploy/programs.js';
import { KEY } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import { listen } from '../harness/listen.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { runHere } from './in-process.js';
import { type Running, runWishmeter, tempDir, until } from './wishmeter.js';

const TOKEN = 'a-token-0123456789';
const clickhouse = await startTestClickHouse(t);
const SERVE = { HOST: '127.0.0.1', DRAIN_MS: '0', REDIS_TIMEOUT_MS: '900', API_KEYS: KEY };
const times = (running: Running, pattern: RegExp) => running.stdout().match(pattern)?.length;
async function stops({ child, ended }: Running): Promise<object> {
  child.kill('SIGTERM');
  const { code, signal, stderr } = await ended;
  return { code, signal, stderr };
}
const WELL = { code: 0, signal: null, stderr: '' };
async function probe(port: number, path: string) {
  const { status, json } = await ask(port, 'GET', path);
  return { ...json, status };
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
  const body = { identity: { sessionId: 's' }, productHandle: 'red-shoe' };
  const visit = () => ask(port, 'POST', '/product/visit', { body });
  const refused = await visit();
  t.match(refused, {
    status: 503,
    headers: { 'retry-after': '1', 'x-request-id': /./ },
    json: { code: 'unavailable' },
  });
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
  const env = {
    HOST: '127.0.0.1',
    FLUSH_METRICS_PORT: String(port),
    REDIS_URL: `redis://127.0.0.1:${redis}`,
    CLICKHOUSE_URL: 'http://127.0.0.1:1',
    CLICKHOUSE_DATABASE: 'flushed',
  };
  const early = runWishmeter(t, { args: ['flush'], env });
  await up(port);
  await early.logged('waiting for ClickHouse');
  t.match(await probe(port, '/readyz'), { status: 503, error: /^Not ready: ClickHouse does not answer: / });
  t.same(await stops(early), WELL, 'a signal ends it while it waits');

  const running = runWishmeter(t, { args: ['flush'], env: { ...env, CLICKHOUSE_URL: clickhouse.url } });
  await running.logged('waiting for Redis');
  t.match(await probe(port, '/readyz'), { status: 503, error: /^Not ready: Redis does not answer: / });
  await redisAt(t, redis);
  await running.logged('flushing');
  t.match(await probe(port, '/readyz'), { status: 200 });
  t.same(await stops(running), WELL);
});
t.test('deliver waits for Redis', async (t) => {
  const redis = await freePort();
  const env = { REDIS_URL: `redis://127.0.0.1:${redis}` };
  const running = runWishmeter(t, { args: ['deliver'], env });
  await running.logged('waiting for Redis');
  await redisAt(t, redis);
  await running.logged('delivering');
  t.same(await stops(running), WELL);
});
t.test('the dashboard waits for the database that flush creates', async (t) => {
  const port = await freePort();
  const { url } = clickhouse;
  const env = { DASHBOARD_PORT: String(port), DASHBOARD_TOKEN: TOKEN, CLICKHOUSE_URL: url };
  const running = runWishmeter(t, { args: ['dashboard'], env });
  await up(port);
  await running.logged('waiting for ClickHouse');
  t.match(await probe(port, '/readyz'), { status: 503, error: /Database wishmeter does not exist.*flush/ });
  t.match(await runHere('migrate', [], { CLICKHOUSE_URL: url }), { code: 0 });
  await until('it is ready', async () => (await probe(port, '/readyz')).status === 200);
  t.same(await stops(running), WELL);
});
t.test('a wrong setting ends the process with one sentence', async (t) => {
  const redis = await startTestRedis(t);
  await connectTo(t, redis.url).call('ACL', 'SETUSER', 'wm', 'on', '>secret', '~*', '&*', '+@all');
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
    const { code, stderr } = await runHere(command, [], env);
    t.equal(code, 1, command);
    t.match(stderr, /^wishmeter: [^\n]+\.\n$/);
    t.match(stderr, sentence);
  }
});

t.test('a folder is locked once, however long its path, and free again after release', async (t) => {
  // Longer than a socket's path may be.
  const long = join(await tempDir(t), 'deep'.repeat(30), 'er'.repeat(60));
  await mkdir(long, { recursive: true });
  const dirs = [await tempDir(t), long];
  const temporary = await tempDir(t);
  const { TMPDIR } = process.env;
  process.env['TMPDIR'] = temporary;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
  });
  for (const dir of dirs) {
    const lock = await lockFolder(dir, 4711);
    const taken = { name: 'StartupError', message: /\(pid 4711\) uses .*DATA_DIR/ };
    await t.rejects(lockFolder(dir, 4712), taken);
    await lock.release();
    await (await lockFolder(dir, 4712)).release();
  }
  t.same(await readdir(temporary), [], 'no temporary folder is left');
});
t.test('a folder that cannot be written or created is refused with one sentence', async (t) => {
  const dir = await tempDir(t);
  const [unprivileged, own] = [65_534, process.geteuid?.()];
  if (own === 0) await chown(dir, unprivileged, unprivileged); // root may write everywhere
  await chmod(dir, 0o500);
  t.teardown(() => chmod(dir, 0o700));
  if (own === 0) process.seteuid?.(unprivileged);
  try {
    await t.rejects(makeFolder(dir), {
      name: 'StartupError',
      message: /written .*\(EACCES\); set another DATA_DIR/,
    });
  } finally {
    if (own === 0) process.seteuid?.(own);
  }
  await chmod(dir, 0o700);
  await makeFolder(dir);
  t.same(await readdir(dir), [], 'nothing is left of the try');
  for (const impossible of ['/proc/none/data', fileURLToPath(import.meta.url)])
    await t.rejects(makeFolder(impossible), { name: 'StartupError', message: /DATA_DIR/ }, impossible);
});
t.test('DATA_DIR is for its owner alone, and refused if others may write it', async (t) => {
  const modeOf = async (dir: string) => (await stat(dir)).mode & 0o777;
  const fresh = join(await tempDir(t), 'a', 'b');
  await makeFolder(fresh);
  t.equal(await modeOf(fresh), 0o700);
  t.equal(await modeOf(join(fresh, '..')), 0o700, 'and so are the folders made above it');
  for (const mode of [0o755, 0o750, 0o711]) {
    const dir = await tempDir(t);
    await chmod(dir, mode);
    await makeFolder(dir);
    t.equal(await modeOf(dir), 0o700, `from ${mode.toString(8)}`);
  }
  for (const mode of [0o777, 0o770, 0o1777, 0o702]) {
    const dir = await tempDir(t);
    await chmod(dir, mode);
    await t.rejects(makeFolder(dir), {
      name: 'StartupError',
      message: /may be written by other users .*chmod 700/,
    });
    t.equal(await modeOf(dir), mode & 0o777, 'and left as it was');
  }
});
t.test('an API key is made once, for its owner only, and an existing key is used or refused', async (t) => {
  const dir = await tempDir(t);
  const file = join(dir, 'api-key');
  const key = await ownApiKey(dir);
  t.match(key, /^sk_[A-Za-z0-9_-]{43}$/);
  t.equal((await stat(file)).mode & 0o777, 0o600);
  t.equal(await ownApiKey(dir), key);
  t.equal(await readFile(file, 'utf8'), `${key}\n`);
  await writeFile(file, 'my-own-key-of-16+\n');
  t.equal(await ownApiKey(dir), 'my-own-key-of-16+');
  await writeFile(file, 'short');
  await t.rejects(ownApiKey(dir), { name: 'StartupError', message: /does not hold a key/ });
  t.equal(await readFile(file, 'utf8'), 'short', 'and not overwritten');
});
t.test('a taken port or a foreign address is refused with one sentence that names the setting', async (t) => {
  const port = await listen(t, createServer());
  const setting = 'PORT';
  for (const [host, message] of [
    ['127.0.0.1', `Port ${port} is taken; stop what listens there or set another PORT.`],
    ['0.0.0.0', `Port ${port} is taken; stop what listens there or set another PORT.`],
    ['203.0.113.7', '203.0.113.7 is not an address of this machine; set another HOST.'],
  ] as const)
    await t.rejects(checkPorts([{ host, port, setting }]), { name: 'StartupError', message }, host);
  const wanted = { host: '127.0.0.1', port: await freePort(), setting };
  await checkPorts([wanted]);
  await checkPorts([wanted]); // it was left free
  await t.rejects(checkPorts([wanted, { ...wanted, setting: 'DASHBOARD_PORT' }]), {
    message: `Port ${wanted.port} is taken; stop what listens there or set another DASHBOARD_PORT.`,
  });
});
t.test(
  'a step of the shutdown begins when the one before it has ended, failed, or reached its deadline',
  async (t) => {
    const begun: string[] = [];
    const error = new Error('no');
    const ways: Readonly<Record<string, () => Promise<void>>> = {
      done: async () => {},
      late: () => Promise.reject(error),
      early: () => {
        throw error;
      },
      hangs: () => new Promise(() => {}),
      last: async () => {},
    };
    const steps = Object.entries(ways).map(([name, end]) => ({
      ...{ name, withinMs: name === 'hangs' ? 200 : 600_000 },
      run() {
        begun.push(name);
        return end();
      },
    }));
    const outcomes = shutdown(steps);
    await until('one hangs', () => begun.includes('hangs'));
    t.same(begun, ['done', 'late', 'early', 'hangs'], 'the next waits for it');
    t.match(await outcomes, [
      { name: 'done', result: 'done' },
      { name: 'late', result: 'failed', error },
      { name: 'early', result: 'failed', error },
      { name: 'hangs', result: 'timed out' },
      { name: 'last', result: 'done' },
    ]);
  },
);

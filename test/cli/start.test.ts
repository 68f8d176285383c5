// `wishmeter start` from its start to its stop: what it keeps, what it says, and what it says no to.

import { once } from 'node:events';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t from 'tap';
import { processesOf } from './processes.js';
import { apiKey, client, logLines, nothingLeft, sql, started, startSettings } from './started.js';
import { MAIN, type Running, spawnWishmeter, tempDir, until, wishmeter } from './wishmeter.js';

t.test(
  'everything is still there after a stop and another start, whatever the folder is called',
  async (t) => {
    const dir = join(await tempDir(t), 'a #b?c%d');
    const first = await started(t, dir);
    const key = await apiKey(dir);
    t.match(key, /^sk_[\w-]{43}$/, 'a key was made');
    t.equal((await stat(join(dir, 'api-key'))).mode & 0o777, 0o600);
    const shop = client(first.url, key);
    for (let i = 0; i < 3; i++) t.equal((await shop.visit('s-1', 'red-shoe')).status, 200);
    t.equal((await shop.event('s-1', 'add', { productId: '1001' })).status, 200);
    const ended = await first.stop();
    t.match(ended, { code: 0, signal: null });
    t.equal(ended.stdout.match(/"msg":"ready"/g)?.length, 1, 'one ready line');
    t.doesNotThrow(() => logLines(ended.stdout), 'every line is JSON');
    t.same(await processesOf(dir), []);

    const second = await started(t, dir);
    t.equal(await apiKey(dir), key, 'the key is kept');
    const again = client(second.url, key);
    t.equal(await again.count('s-1', 'red-shoe'), 3);
    // It may have been moved before the stop or after this start; once, either way.
    await until('the event is there', async () => {
      return (await sql(second.clickhouseUrl, 'SELECT count() FROM events')) === '1';
    });
    t.equal((await second.stop()).code, 0);
  },
);

t.test('it keeps to this machine, to its owner, and to what it is told of syncing', async (t) => {
  const dir = await tempDir(t);
  const { url, clickhouseUrl, stop } = await started(t, dir, { HOST: '', REDIS_FSYNC: 'always' });
  t.equal(new URL(url).hostname, '127.0.0.1', 'without HOST it listens on loopback');
  const outside = Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal);
  if (outside)
    await t.rejects(fetch(`http://${outside.address}:${new URL(url).port}/healthz`), 'and nowhere else');
  const redis = new Redis({ path: join(dir, 'redis', 'redis.sock') });
  t.same(await redis.config('GET', 'appendfsync'), ['appendfsync', 'always']);
  redis.disconnect();
  t.equal((await stat(dir)).mode & 0o777, 0o700);
  for (const name of await readdir(dir, { recursive: true })) {
    const { mode } = await stat(join(dir, name)).catch(() => ({ mode: 0 }));
    t.equal(mode & 0o077, 0, name);
  }
  const password = async () =>
    new URL(await readFile(join(dir, 'clickhouse', 'service-url'), 'utf8')).password;
  const first = await password();
  t.equal(new URL(clickhouseUrl).password, '', 'what it logs has no password');
  t.match(await wishmeter({ args: ['migrate'], env: { DATA_DIR: dir } }), {
    code: 0,
    stdout: 'Nothing to do.\n',
  });
  await stop();
  const again = await started(t, dir);
  t.not(await password(), first, 'a password of this start');
  await again.stop();
});

t.test('the key is in no log line, however much is logged', async (t) => {
  const dir = await tempDir(t);
  const { stop, url } = await started(t, dir, { LOG_LEVEL: 'trace' });
  const key = await apiKey(dir);
  t.equal((await client(url, key).event('s-1', 'add', {})).status, 200);
  const { stdout, stderr } = await stop();
  t.notMatch(stdout + stderr, key);
});

t.test(
  'a port of 0 is taken by the process that listens on it: none that is given back is counted on',
  async (t) => {
    const dir = await tempDir(t);
    // Another program gets each port at the moment when it is free.
    const neighbour = `
    import { createServer, Server } from 'node:net';
    const { close } = Server.prototype;
    Server.prototype.close = function (done) {
      const port = this.address()?.port;
      return close.call(this, () => {
        if (port) createServer().listen(port, '127.0.0.1').on('error', () => {}).unref();
        done?.();
      });
    };`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(neighbour)}`;
    const { url, clickhouseUrl, dashboardUrl, stop } = await started(t, dir, { NODE_OPTIONS, WORKERS: '2' });
    t.equal((await client(url, '').visit('s-1', 'red-shoe')).status, 200);
    t.equal((await fetch(`${clickhouseUrl}/ping`)).status, 200);
    t.equal((await fetch(dashboardUrl)).status, 200);
    t.equal((await stop()).code, 0);
  },
);

t.test('a second start on the same folder is refused and changes nothing', async (t) => {
  const dir = await tempDir(t);
  const { running, url, stop } = await started(t, dir);
  const { code, stderr } = await wishmeter({ args: ['start'], env: startSettings(dir) });
  t.equal(code, 1);
  t.match(
    stderr,
    new RegExp(`^wishmeter: Another .wishmeter start. \\(pid ${running.child.pid}\\)[^\\n]+\\n$`),
  );
  t.equal((await client(url, '').visit('s-1', 'red-shoe')).status, 200);
  t.equal((await stop()).code, 0);
});

t.test('of two starts at one moment on what a killed one left, one runs, with one Redis', async (t) => {
  const dir = await tempDir(t);
  const first = await started(t, dir);
  const key = await apiKey(dir);
  t.equal((await client(first.url, key).visit('s-1', 'red-shoe')).status, 200);
  first.running.child.kill('SIGKILL');
  await nothingLeft(dir);
  const rivals = [1, 2].map(() => spawnWishmeter({ args: ['start'], env: startSettings(dir) }));
  t.teardown(async () => {
    for (const { child } of rivals) child.kill('SIGKILL');
    await nothingLeft(dir);
  });
  const readyLine = (rival: Running) => logLines(rival.stdout()).find(({ msg }) => msg === 'ready');
  const winner = await until('one is ready', () => rivals.find(readyLine));
  const loser = rivals.find((rival) => rival !== winner) as Running;
  t.match(await loser.ended, { code: 1, stderr: new RegExp(`\\(pid ${winner.child.pid}\\) uses`) });
  const redises = (await processesOf(dir)).filter(({ title }) => /^\S*(redis|valkey)-server/.test(title));
  t.equal(redises.length, 1, JSON.stringify(redises));
  t.equal(await client(String(readyLine(winner)?.['url']), key).count('s-1', 'red-shoe'), 1);
  winner.child.kill('SIGTERM');
  t.equal((await winner.ended).code, 0);
});

t.test('what keeps it from starting is one sentence, exit code 1, and nothing is left running', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const taken = String((other.address() as { port: number }).port);
  const empty = join(await tempDir(t), 'empty');
  await mkdir(empty);
  const pretend = encodeURIComponent("Object.defineProperty(process.versions, 'modules', { value: '999' })");
  const cases: Record<string, { env: NodeJS.ProcessEnv; sentence: RegExp }> = {
    'a taken port': { env: { PORT: taken }, sentence: /Port \d+ is taken; .*PORT/ },
    'a taken port of ClickHouse': {
      env: { CLICKHOUSE_PORT: taken },
      sentence: /Port \d+ is taken; .*CLICKHOUSE_PORT/,
    },
    'no redis-server': { env: { PATH: empty }, sentence: /redis-server.* (PATH|installed|install)/ },
    'a Redis that does not answer': {
      env: { REDIS_URL: 'redis://127.0.0.1:1' },
      sentence: /Redis does not answer/,
    },
    'a ClickHouse that does not answer': {
      env: { CLICKHOUSE_URL: 'http://127.0.0.1:1' },
      sentence: /ClickHouse/,
    },
    'a folder that is a file': { env: { DATA_DIR: MAIN }, sentence: /DATA_DIR/ },
    'a folder below one that takes none': {
      env: { DATA_DIR: '/proc/none/data' },
      sentence: /\/proc\/none\/data can't be made.*DATA_DIR/,
    },
    'no binary of uWebSockets.js': {
      env: { NODE_OPTIONS: `--import=data:text/javascript,${pretend}` },
      sentence: /no binary .*use Node/,
    },
  };
  for (const [name, { env, sentence }] of Object.entries(cases)) {
    const dir = await tempDir(t);
    const ended = await wishmeter({ args: ['start'], env: { ...startSettings(dir), ...env } });
    t.equal(ended.code, 1, name);
    t.match(ended.stderr, sentence, name);
    t.match(ended.stderr, /^wishmeter: [^\n]+\n$/, `${name}: one sentence`);
    if (process.platform === 'linux') await nothingLeft(dir, 5_000);
  }
});

// What is no backup, and no empty target, is refused by `wishmeter backup` and `wishmeter restore`; restores that are disturbed,
// of one database, and into a DATA_DIR.

import { once } from 'node:events';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openRedis, startTestCluster, startTestRedis } from '../harness/redis.js';
import {
  type Deployment,
  GUESTS,
  keysOf,
  liveThrough,
  nameOf,
  PREFIX,
  rowsOf,
  run,
  runWell,
  settingsOf,
  startPool,
  startService,
  untilFlushed,
} from './backups.js';
import { apiKey, nothingLeft, shopAt, sql, started, startSettings } from './started.js';
import { onTerminal, tempDir, until, wishmeter } from './wishmeter.js';

/** A ClickHouse behind a proxy that passes on half of one table. */
async function halfWay(t: Test, url: string, table: string): Promise<string> {
  const server = createServer((req, res) => {
    const { hostname, port } = new URL(url);
    const passed = request({ hostname, port, path: req.url, method: req.method, headers: req.headers });
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => passed.end(Buffer.concat(chunks)));
    passed.on('response', async (answer) => {
      const body: Buffer[] = [];
      for await (const chunk of answer) body.push(chunk as Buffer);
      const whole = Buffer.concat(body);
      const isIt = Buffer.concat(chunks).includes(`FROM ${table} FINAL FORMAT`);
      const { 'transfer-encoding': _, ...headers } = answer.headers;
      res.writeHead(answer.statusCode as number, headers);
      res.end(
        isIt ? `${whole.subarray(0, whole.length / 2)}Code: 241. DB::Exception: Memory limit\n` : whole,
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const through = new URL(url);
  through.port = String((server.address() as AddressInfo).port);
  return through.href;
}

t.test('what is no backup, and a target that is not empty, is refused', async (t) => {
  const clickhouse = await startPool(t);
  const source = { redis: await startTestRedis(t), clickhouse, database: 'wishmeter' };
  const { app, close } = await startService(t, source);
  await liveThrough(app);
  await untilFlushed(source, 2 * GUESTS + 1);
  await close();
  const dir = await tempDir(t);
  const folder = join(dir, 'backup');
  const refused = async (command: 'backup' | 'restore', at: string, where: Deployment, why: RegExp) => {
    const { code, stdout, stderr } = await run(command, at, where);
    t.same({ code, stdout }, { code: 1, stdout: '' }, `${why}`);
    t.match(stderr, why);
  };

  for (const table of ['visits_stored', 'events_stored', 'visitors_per_day_stored']) {
    const half = { url: await halfWay(t, clickhouse.url, table) };
    const failed = join(dir, table);
    await refused('backup', failed, { ...source, clickhouse: half }, /There is no backup.* broke off/);
    t.notOk((await readdir(failed)).includes('manifest.json'));
    await refused('restore', failed, source, /no backup, or an unfinished one/);
  }
  await refused('backup', folder, { ...source, database: 'nothing' }, /no database nothing/);
  await refused('backup', folder, { ...source, redis: await startTestRedis(t) }, /holds no data/);
  await runWell(t, 'backup', folder, source);
  await refused('backup', folder, source, /is not empty/);

  const empty = { redis: await startTestRedis(t), clickhouse, database: 'shop' };
  await refused('restore', folder, { ...empty, redis: source.redis }, /Redis is not empty/);
  await refused('restore', folder, { ...empty, database: 'wishmeter' }, /ClickHouse is not empty/);
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const bytes = await readFile(path);
    const middle = Math.floor(bytes.length / 2);
    const damaged = Buffer.from(bytes);
    damaged[middle] = (damaged[middle] as number) ^ 0xff;
    await writeFile(path, damaged);
    await refused('restore', folder, empty, /damaged/);
    await writeFile(path, bytes);
  }
  t.same(await keysOf(empty.redis), {}, 'nothing was changed');
  t.equal(await rowsOf(empty, 'events_stored'), 0);
});

t.test('a restore that something else disturbs fails, and succeeds on emptied databases', async (t) => {
  const clickhouse = await startPool(t);
  const source = { redis: await startTestRedis(t), clickhouse, database: 'wishmeter' };
  const { app, close } = await startService(t, source);
  await liveThrough(app);
  await untilFlushed(source, 2 * GUESTS + 1);
  await close();
  const folder = join(await tempDir(t), 'backup');
  await runWell(t, 'backup', folder, source);

  const target = { redis: await startTestRedis(t), clickhouse, database: 'shop' };
  const redis = openRedis(target.redis.urls[0] as string);
  const disturbing = (async () => {
    await until('rows are there', async () => (await rowsOf(target, 'deployment')) > 0);
    await redis.hset(`${PREFIX}:meta`, 'salt', 'of another one', 'schema', '1');
  })();
  const { code, stderr } = await run('restore', folder, target);
  await disturbing;
  t.equal(code, 1);
  t.match(stderr, /Not restored\. Something else writes to this Redis/);
  const { code: refused } = await run('restore', folder, target);
  t.equal(refused, 1, 'it is not empty');

  await redis.flushall();
  redis.disconnect();
  await sql(clickhouse.url, 'DROP DATABASE shop');
  await runWell(t, 'restore', folder, target);
  t.same(await keysOf(target.redis), await keysOf(source.redis));
});

t.test('one database is lost, and the other stays as it is', async (t) => {
  const clickhouse = await startPool(t);
  const source = { redis: await startTestRedis(t), clickhouse, database: 'wishmeter' };
  const { app, close } = await startService(t, source);
  await liveThrough(app);
  await untilFlushed(source, 2 * GUESTS + 1);
  const folder = join(await tempDir(t), 'backup');
  await runWell(t, 'backup', folder, source);
  await app.shop.visit(nameOf(5));
  await untilFlushed(source, 2 * GUESTS + 2);
  await close();

  const only = (which: string, where: Deployment) =>
    wishmeter({ args: ['restore', '--only', which, folder], env: settingsOf(where) });
  const newRedis = { ...source, redis: await startTestCluster(t) };
  const newClickHouse = { ...source, database: 'shop' };
  const strange = await only('redis', { ...newRedis, database: 'shop' });
  t.match(strange.stderr, /ClickHouse does not hold the deployment/);
  t.match(
    (await only('clickhouse', { ...newRedis, database: 'shop' })).stderr,
    /Redis does not hold the dep/,
  );

  t.equal((await only('clickhouse', newClickHouse)).code, 0);
  t.equal(await rowsOf(newClickHouse, 'visits'), 2 * GUESTS + 1, 'of then');
  t.equal((await only('redis', newRedis)).code, 0);
  t.equal(await rowsOf(newRedis, 'visits'), 2 * GUESTS + 2, 'of now');
  const again = await startService(t, newRedis);
  t.equal(await again.app.shop.count(nameOf(5)), 2, 'of then');
});

t.test('of a running `start`, and into a DATA_DIR that is not there', async (t) => {
  const dir = await tempDir(t);
  const [data, other, folder] = ['data', 'other', 'backup'].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  const first = await started(t, data);
  const before = shopAt(first.url, await apiKey(data));
  await before.visit({ sessionId: 'ada' });
  await before.event({ sessionId: 'ada' }, 'add', { productId: 'a' });
  const screen = await onTerminal(t, `backup ${folder}`, { DATA_DIR: data }).ended();
  t.match(screen, /Redis, names of keys: \d/);
  t.match(screen, /read back and whole/);
  const busy = await wishmeter({ args: ['restore', folder], env: { DATA_DIR: data } });
  t.match(busy.stderr, /Another `wishmeter start`/);
  await first.stop();
  await nothingLeft(data);
  const restore = await wishmeter({ args: ['restore', folder], env: { DATA_DIR: other } });
  t.same({ code: restore.code, stderr: restore.stderr }, { code: 0, stderr: '' });
  await nothingLeft(other);
  const second = await started(t, other, startSettings(other));
  const after = shopAt(second.url, await apiKey(other));
  t.equal(await after.count({ sessionId: 'ada' }), 1);
  await until('the event is in ClickHouse', async () => {
    return (await sql(second.clickhouseUrl, 'SELECT product_id FROM events')) === 'a';
  });
  await second.stop();
  await rm(other, { recursive: true });
});

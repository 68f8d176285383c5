// `wishmeter backup` next to a running service, and `restore` on a Redis of another shape: acknowledged data
// are there once. (start.test.ts: the backup of a running `start`, and a restore into a DATA_DIR.)

import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { makeSmallWorld } from '../clickhouse/small-world.js';
import { exception, startClickHouseProxy } from '../faults/clickhouse-proxy.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { connectTo, startTestCluster, startTestRedis } from '../harness/redis.js';
import {
  type Deployment,
  endsOf,
  GUESTS,
  keysOf,
  LATE,
  liveThrough,
  nameOf,
  PREFIX,
  rowsOf,
  runWell,
  settingsOf,
  startService,
  untilFlushed,
  viewsOf,
} from './backups.js';
import { runHere } from './in-process.js';
import { sql } from './started.js';
import { tempDir, until } from './wishmeter.js';

const clickhouse = await startTestClickHouse(t, { databases: ['wishmeter', 'shop', 'load'] });

async function refused(
  t: Test,
  command: 'backup' | 'restore',
  folder: string,
  deployment: Deployment,
  why: RegExp,
) {
  const said = await runHere(command, [folder], settingsOf(deployment));
  t.match(said, { code: 1, stdout: '', stderr: why }, `${why}`);
}

t.test('backup and restore of a quiet deployment', async (t) => {
  const dir = await tempDir(t);
  const [folder, again] = [join(dir, 'backup'), join(dir, 'again')];
  const source = { redis: await startTestRedis(t), clickhouse, database: 'wishmeter' };
  const cluster = { redis: await startTestCluster(t), clickhouse, database: 'shop2' };
  const one = { redis: await startTestRedis(t), clickhouse, database: 'shop' };
  const oneRedis = connectTo(t, one.redis.url);
  await connectTo(t, source.redis.url).mset('wmx:a', '1', 'other', '2');
  const { app, close } = await startService(t, source);
  await liveThrough(app);
  const { code } = await app.shop.share(nameOf(4));
  await untilFlushed(source, 2 * GUESTS + 1);
  const client = connectToClickHouse(t, clickhouse.url, source.database);
  await makeSmallWorld(client);
  await close();
  t.not((await totalDays(client, Date.now() + 2 * QUIET_MS)).length, 0, 'some days have totals');

  await t.test(
    'backup refuses a broken source and a folder that is not empty, and leaves no manifest',
    async (t) => {
      const failed = join(dir, 'failed');
      const half = {
        ...source,
        clickhouse: await startClickHouseProxy(t, clickhouse.url, 'FROM events_stored FINAL'),
      };
      const body = `event_id\ttype\n1\tadd\n${exception(241, 'Memory limit exceeded', 'MEMORY_LIMIT_EXCEEDED')}`;
      half.clickhouse.spoil({ forward: false, answer: { status: 200, body } });
      await refused(t, 'backup', failed, half, /There is no backup.* broke off/);
      t.notOk((await readdir(failed)).includes('manifest.json'));
      await refused(t, 'restore', failed, source, /no backup, or an unfinished one/);
      await refused(t, 'backup', folder, { ...source, database: 'nothing' }, /no database nothing/);
      await refused(t, 'backup', folder, { ...source, redis: one.redis }, /holds no data/);
      t.match(await runWell(t, 'backup', folder, source), /keys and \d+ rows, read back and whole\. Replies/);
      await refused(t, 'backup', folder, source, /is not empty/);
      t.equal((await stat(folder)).mode & 0o777, 0o700);
      for (const name of await readdir(folder))
        t.equal((await stat(join(folder, name))).mode & 0o777, 0o600, name);
    },
  );

  await t.test('restore refuses a target that is not empty, and a damaged file', async (t) => {
    await refused(t, 'restore', folder, { ...one, redis: source.redis }, /Redis is not empty/);
    await refused(t, 'restore', folder, { ...one, database: source.database }, /ClickHouse is not empty/);
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      const bytes = await readFile(path);
      const middle = Math.floor(bytes.length / 2);
      const damaged = Buffer.from(bytes);
      damaged[middle] = (damaged[middle] as number) ^ 0xff;
      await writeFile(path, damaged);
      await refused(t, 'restore', folder, one, /damaged/);
      await writeFile(path, bytes);
    }
    t.same(await keysOf(one.redis), {}, 'nothing was changed');
    t.equal(await rowsOf(one, 'events_stored'), 0);
  });

  await t.test(
    'a backup restored into a cluster has every key and row, and the service goes on',
    async (t) => {
      const said = await runWell(t, 'restore', folder, cluster);
      const into = `Restored into Redis ${cluster.redis.urls.map((url) => new URL(url).host).join(', ')}, keys ${PREFIX}:*; `;
      const database = `ClickHouse ${new URL(clickhouse.url).host}, database ${cluster.database}.\n`;
      t.equal(said.slice(0, said.indexOf('As of')), into + database);
      t.match(said, /each found/);
      t.same(await keysOf(cluster.redis), await keysOf(source.redis), 'every key, and no other');
      t.same(
        await endsOf(t, cluster.redis),
        await endsOf(t, source.redis),
        'each expires when it would have',
      );
      const answers = await viewsOf(clickhouse, source.database);
      const empty = Object.keys(answers).filter((view) => answers[view] === '');
      t.same(empty, ['share_opens', 'product_alerts'], 'every other view has rows');
      t.same(await viewsOf(clickhouse, cluster.database), answers, 'the same rows');
      const { app, close } = await startService(t, cluster);
      t.equal(await app.shop.count({ customerId: '7' }), 5);
      t.equal((await app.shop.items(nameOf(4))).length, 1);
      t.equal((await app.get(`/wishlist/share/${code}`)).status, 200);
      await app.shop.visit(nameOf(5));
      await untilFlushed(cluster, 2 * GUESTS + 2);
      t.equal(await app.shop.count(nameOf(5)), 3);
      await close();
    },
  );

  await t.test(
    'a restore that is disturbed by other writes fails, and succeeds on emptied databases',
    async (t) => {
      await runWell(t, 'backup', again, cluster);
      const disturbing = (async () => {
        await until('rows are there', async () => (await rowsOf(one, 'deployment')) > 0);
        await oneRedis.hset(`${PREFIX}:meta`, 'salt', 'of another one', 'schema', '1');
      })();
      await refused(t, 'restore', again, one, /Not restored\. Something else writes to this Redis/);
      await disturbing;
      await refused(t, 'restore', again, one, /is not empty/);
      await oneRedis.flushall();
      await sql(clickhouse.url, 'DROP DATABASE shop');
      await runWell(t, 'restore', again, one);
      t.same(await keysOf(one.redis), await keysOf(cluster.redis), 'from streams of three masters to one');
    },
  );

  await t.test('restore --only replaces one lost database, and leaves the other as it is', async (t) => {
    const only = (which: string, where: Deployment) =>
      runHere('restore', ['--only', which, folder], settingsOf(where));
    const newRedis = { ...source, redis: await startTestRedis(t) };
    const newClickHouse = { ...source, database: 'shop3' };
    const strange = { ...newRedis, database: 'load' };
    t.match((await only('redis', strange)).stderr, /ClickHouse does not hold the deployment/);
    t.match((await only('clickhouse', strange)).stderr, /Redis does not hold the dep/);

    const later = await startService(t, source);
    await later.app.shop.visit(nameOf(5));
    const all = await rowsOf(source, 'visits');
    await untilFlushed(source, all + 1);
    await later.close();
    t.equal((await only('clickhouse', newClickHouse)).code, 0);
    t.equal(await rowsOf(newClickHouse, 'visits'), all, 'of then');
    t.equal((await only('redis', newRedis)).code, 0);
    t.equal(await rowsOf(newRedis, 'visits'), all + 1, 'of now');
    const { app, close } = await startService(t, newRedis);
    t.equal(await app.shop.count(nameOf(5)), 2, 'of then');
    await close();
  });
});

t.test('a backup under load has everything that was acknowledged before it, once', async (t) => {
  const source = { redis: await startTestCluster(t), clickhouse, database: 'load' };
  const { app, close } = await startService(t, source);
  const { shop } = app;
  for (let i = 0; i < GUESTS + LATE; i++) await shop.visit(nameOf(i));
  for (let i = 0; i < GUESTS; i++) await shop.add(nameOf(i));

  const folder = join(await tempDir(t), 'backup');
  let isOver = false;
  let logins = 0;
  const visiting = (async () => {
    for (let i = 0; !isOver; i++) {
      await shop.visit({ sessionId: `late-${i % 20}` });
      await shop.event({ sessionId: `late-${i % 20}` }, 'add', { productId: `p-${i}` });
    }
  })();
  const login = (by: typeof shop, n: number) => by.login({ customerId: `c-${n % 8}`, ...nameOf(GUESTS + n) });
  const loggingIn = (async () => {
    while (!isOver && logins < LATE) await login(shop, logins++);
  })();
  const backedUp = await runWell(t, 'backup', folder, source).finally(() => {
    isOver = true;
  });
  await Promise.all([visiting, loggingIn]);
  await close();
  t.ok(logins > 0, `${logins} logins meanwhile`);

  const target = { redis: await startTestCluster(t, { masters: 2 }), clickhouse, database: 'load2' };
  const [, all, rows] = /: (\d+) keys and (\d+) rows/.exec(backedUp) ?? [];
  const [, found, of, foundRows, ended] =
    /: (\d+) of (\d+) keys and (\d+) rows, each found\. (\d+) keys are left out/.exec(
      await runWell(t, 'restore', folder, target),
    ) ?? [];
  t.match(all, /^\d+$/, 'the backup says how many keys it has');
  t.same([of, foundRows], [all, rows], 'backup and restore count the same');
  t.equal(Number(found) + Number(ended), Number(all));
  const restored = await startService(t, target);
  for (let i = 0; i < GUESTS; i++) {
    t.equal(await restored.app.shop.count(nameOf(i)), 1);
    t.equal((await restored.app.shop.items(nameOf(i))).length, 1);
  }
  // Guests whose login came too late for the backup log in again; for the others it changes nothing.
  for (let n = 0; n < LATE; n++) await login(restored.app.shop, n);
  let sum = 0;
  for (let n = 0; n < 8; n++) sum += await restored.app.shop.count({ customerId: `c-${n}` });
  t.equal(sum, LATE, 'each visit of a guest who logged in is counted once');
  const from = `${target.database}.events WHERE type = 'add' AND startsWith(session_id, 's-')`;
  const wishes = () => sql(clickhouse.url, `SELECT count(), uniqExact(session_id) FROM ${from}`);
  await untilFlushed(target, GUESTS + LATE);
  await until('the wishes are flushed', async () => Number.parseInt(await wishes(), 10) >= GUESTS);
  t.equal(await wishes(), `${GUESTS}\t${GUESTS}`, 'each wish is shown once');
  await restored.close();
});

// `wishmeter backup` and `wishmeter restore`, as processes beside a running service: what was acknowledged before a backup is
// there after the restore, once, on a Redis of another shape. What they refuse: backup-refusals.test.ts.

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { makeSmallWorld } from '../clickhouse/small-world.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { connectTo, startTestCluster, startTestRedis } from '../harness/redis.js';
import {
  answersOf,
  type Deployment,
  GUESTS,
  keysOf,
  LATE,
  liveThrough,
  nameOf,
  rowsOf,
  runWell,
  startPool,
  startService,
  untilFlushed,
} from './backups.js';
import { sql } from './started.js';
import { tempDir, until } from './wishmeter.js';

t.test('a quiet deployment is the same on another Redis, and says the same', async (t) => {
  const clickhouse = await startPool(t);
  const cluster = await startTestCluster(t);
  const source = { redis: await startTestRedis(t), clickhouse, database: 'wishmeter' };
  const foreign = connectTo(t, source.redis.urls[0] as string);
  await foreign.mset('wmx:a', '1', 'other', '2');
  const { app, close } = await startService(t, source);
  await liveThrough(app);
  const { code } = await app.shop.share(nameOf(4));
  await untilFlushed(source, 2 * GUESTS + 1);
  await makeSmallWorld(connectToClickHouse(t, clickhouse.url, source.database));
  await close();
  const before = await keysOf(source.redis);
  const answers = await answersOf(clickhouse, source.database);

  const folder = join(await tempDir(t), 'backup');
  t.match(await runWell(t, 'backup', folder, source), /keys and \d+ rows, read back and whole\.\n$/);
  t.equal((await stat(folder)).mode & 0o777, 0o700);
  for (const name of await readdir(folder))
    t.equal((await stat(join(folder, name))).mode & 0o777, 0o600, name);

  const target = { redis: cluster, clickhouse, database: 'shop2' };
  t.match(await runWell(t, 'restore', folder, target), /each found/);
  t.same(await keysOf(cluster), before, 'every key, and no other');
  t.same(await answersOf(clickhouse, target.database), answers, 'every answer');

  const second = await startService(t, target);
  t.equal(await second.app.shop.count({ customerId: '7' }), 5);
  t.equal((await second.app.shop.items(nameOf(4))).length, 1);
  t.equal((await second.app.get(`/wishlist/share/${code}`)).status, 200);
  await second.app.shop.visit(nameOf(5));
  await untilFlushed(target, 2 * GUESTS + 2);
  t.equal(await second.app.shop.count(nameOf(5)), 3);
  await second.close();

  // And back: streams of three masters at one server.
  const again = join(await tempDir(t), 'backup');
  await runWell(t, 'backup', again, target);
  const third = { redis: await startTestRedis(t), clickhouse, database: 'shop3' };
  await runWell(t, 'restore', again, third);
  t.same(await keysOf(third.redis), await keysOf(cluster));
});

t.test('under load nothing acknowledged before is lost or doubled, in any shape', async (t) => {
  const clickhouse = await startPool(t);
  const source = { redis: await startTestCluster(t), clickhouse, database: 'wishmeter' };
  const { app, close } = await startService(t, source);
  const { shop } = app;
  await makeSmallWorld(connectToClickHouse(t, clickhouse.url, source.database));
  for (let i = 0; i < GUESTS; i++) {
    await shop.visit(nameOf(i));
    await shop.add(nameOf(i));
  }
  for (let i = GUESTS; i < GUESTS + LATE; i++) await shop.visit(nameOf(i));

  const folder = join(await tempDir(t), 'backup');
  let isOver = false;
  let logins = 0;
  const visiting = (async () => {
    for (let i = 0; !isOver; i++) {
      await shop.visit({ sessionId: `late-${i % 20}` });
      await shop.event({ sessionId: `late-${i % 20}` }, 'add', { productId: `p-${i}` });
    }
  })();
  const loggingIn = (async () => {
    while (!isOver && logins < LATE) {
      const n = logins++;
      const identity = { customerId: `c-${n % 8}`, ...nameOf(GUESTS + n) };
      await shop.login(identity);
    }
  })();
  await runWell(t, 'backup', folder, source).finally(() => {
    isOver = true;
  });
  await Promise.all([visiting, loggingIn]);
  await close();
  t.ok(logins > 0, `${logins} logins meanwhile`);

  const answers = await answersOf(clickhouse, source.database);
  const one = { redis: await startTestRedis(t), clickhouse, database: 'shop4' };
  const two = { redis: await startTestCluster(t, { masters: 2 }), clickhouse, database: 'shop5' };
  const targets = [one, two];
  for (const target of targets) await runWell(t, 'restore', folder, target);
  t.same(await keysOf(one.redis), await keysOf(two.redis), 'every key and value');
  t.same(await answersOf(clickhouse, one.database), await answersOf(clickhouse, two.database), 'every row');
  for (const target of targets) await t.test(target.database, (t) => isWhole(t, target, answers));
});

/** A deployment that was restored from a backup under load, asked and used. @param before answers of the source */
async function isWhole(t: Test, target: Deployment, before: Record<string, string>) {
  const { clickhouse } = target;
  const now = await answersOf(clickhouse, target.database);
  const months = Object.keys(now).filter((question) => question.includes('2026-03'));
  t.ok(months.length > 8);
  for (const question of months) t.equal(now[question], before[question], question);
  const restored = await startService(t, target);
  for (let i = 0; i < GUESTS; i++) {
    t.equal(await restored.app.shop.count(nameOf(i)), 1);
    t.equal((await restored.app.shop.items(nameOf(i))).length, 1);
  }
  // Those whose login came too late for the backup log in again; it adds nothing to the others.
  for (let n = 0; n < LATE; n++)
    await restored.app.shop.login({ customerId: `c-${n % 8}`, ...nameOf(GUESTS + n) });
  let sum = 0;
  for (let n = 0; n < 8; n++) sum += await restored.app.shop.count({ customerId: `c-${n}` });
  t.equal(sum, LATE, 'each visit of a guest who logged in is counted once');
  await until('what was in the streams is flushed', async () => {
    const rows = await sql(
      clickhouse.url,
      `SELECT uniqExact(profile_id) FROM ${target.database}.visits WHERE profile_id NOT IN (SELECT profile_id FROM ${target.database}.events)`,
    );
    return Number(rows) > 0;
  });
  await until('visits of before', async () => (await rowsOf(target, 'visits')) >= GUESTS + LATE);
  t.equal(
    await rowsOf(target, "events WHERE type = 'add' AND origin = 'item' AND occurred_at > '2025-12-31'"),
    GUESTS,
  );
  const events = await rowsOf(target, "events WHERE type = 'add'");
  t.equal(
    await rowsOf(target, "steps_by_visitor WHERE step = 'add'"),
    events,
    'what is fed has every event once',
  );
  await restored.close();
}

// The schema of a cluster on two replicas: `make test-replicas`, not part of `make test`. docs/scaling.md
// lists the untested parts.

import type { ClickHouseClient } from '@clickhouse/client';
import t from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { keepSettings, resolveSettings } from '../../src/clickhouse/kept-settings.js';
import { loadMigrations, migrate } from '../../src/clickhouse/migrate.js';
import { exampleOf, loadViews, QUESTIONS } from '../../src/clickhouse/views.js';
import { makeSmallWorld } from '../clickhouse/small-world.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { needs } from '../harness/needs.js';
import { until } from '../harness/until.js';
import { CLUSTER, onEach, startCluster } from './cluster.js';
import { notHere } from './writable.js';
import { hasZooKeeper } from './zookeeper.js';

const never = new AbortController().signal;
const SHARDED_TABLES = 9;
const TABLES_ON_ALL = 3;

async function ask<T>(client: ClickHouseClient, query: string): Promise<T[]> {
  return await (await client.query({ query, format: 'JSONEachRow' })).json<T>();
}

const linesOf = (events: number) =>
  Buffer.from(Array.from({ length: events }, () => lineOf(eventRow())).join(''));

const available = needs(
  notHere ?? (hasZooKeeper ? undefined : 'no ZooKeeper here (apt-get install zookeeper)'),
);

t.test('two replicas', available, async (t) => {
  const cluster = await startCluster();
  t.teardown(() => cluster.stop());
  const [first, second] = cluster.connect();

  await t.test('two servers that migrate two replicas at the same time make one schema', async (t) => {
    const names = loadMigrations().map(({ name }) => name);
    const ran = await Promise.all([
      migrate(onEach([first, second]), 'shop', { cluster: CLUSTER }),
      migrate(onEach([second, first]), 'shop', { cluster: CLUSTER }),
    ]);
    for (const [i, some] of ran.entries())
      t.ok(
        some.every((name) => names.includes(name)),
        `migrator ${i}`,
      );
    t.same(await migrate(onEach([first, second]), 'shop', { cluster: CLUSTER }), [], 'nothing is left to do');
    for (const [i, client] of [first, second].entries()) {
      const views = await ask<{ name: string }>(
        client,
        `SELECT name FROM system.tables WHERE database = 'shop' AND engine = 'View'`,
      );
      t.same(
        views.map(({ name }) => name).sort(),
        loadViews()
          .map(({ name }) => name)
          .sort(),
        `views of replica ${i + 1}`,
      );
    }
  });

  await t.test('every table has both replicas, and both are writable', async (t) => {
    for (const [i, client] of [first, second].entries()) {
      const replicas = await ask<{ table: string; path: string; replica: string }>(
        client,
        `SELECT table, zookeeper_path AS path, replica_name AS replica, is_readonly, total_replicas, active_replicas
          FROM system.replicas WHERE database = 'shop' ORDER BY table`,
      );
      t.equal(replicas.length, SHARDED_TABLES + TABLES_ON_ALL);
      for (const { table, path, replica, ...state } of replicas) {
        const isLocal = table.endsWith('_local');
        t.same(state, { is_readonly: 0, total_replicas: 2, active_replicas: 2 }, table);
        t.equal(path, `/clickhouse/tables/${isLocal ? '1' : 'all'}/shop/${table}`);
        t.equal(replica, isLocal ? `r${i + 1}` : `1-r${i + 1}`, table);
      }
    }
  });

  await t.test('settings that one replica gets are kept by both', async (t) => {
    const given = { VISIT_RETENTION_DAYS: 40, SHOP_TIMEZONE: 'UTC', CLICKHOUSE_CLUSTER: CLUSTER };
    await keepSettings(onEach([first, second]), 'shop', given);
    const unset = { VISIT_RETENTION_DAYS: undefined, SHOP_TIMEZONE: undefined, CLICKHOUSE_CLUSTER: '' };
    await until('the second has heard of it', async () => {
      const { settings } = await resolveSettings(onEach([second, first]), 'shop', unset);
      return settings.VISIT_RETENTION_DAYS === 40 && settings.CLICKHOUSE_CLUSTER === CLUSTER;
    });
    t.pass();
  });

  const [one, two] = cluster.connect('shop');

  await t.test('lines inserted by one replica, and again by the other, are shown once', async (t) => {
    const lines = linesOf(3);
    for (const client of [one, two, two]) await insertEvents(client, lines, never);
    t.same(await ask(one, 'SELECT count() AS n FROM events'), [{ n: '3' }], 'shown once');
  });

  await t.test('every question has the same answer on two replicas as on one server', async (t) => {
    const server = await startTestClickHouse(t);
    const admin = createClickHouse(server.url);
    await migrate(admin, 'shop');
    await admin.close();
    const alone = connectToClickHouse(t, server.url, 'shop');
    await one.command({ query: 'TRUNCATE TABLE events_stored_local' });
    for (const client of [alone, one]) await makeSmallWorld(client);
    const views = new Map(loadViews().map((view) => [view.name, exampleOf(view)]));
    const asked = (view: string) => views.get(view)?.replaceAll('2026-03', '2025-03');
    const answers = async (client: ClickHouseClient) =>
      Object.fromEntries(
        await Promise.all(
          QUESTIONS.map(async (view) => [view, await ask(client, `SELECT * FROM ${asked(view)}`)]),
        ),
      );
    const expected = await answers(alone);
    for (const view of QUESTIONS) t.ok(expected[view].length > 0, `${view} has an answer`);
    t.same(await answers(one), expected, 'from every visit');
    const days = [];
    for (const client of [alone, one]) days.push(await totalDays(client, Date.now() + 2 * QUIET_MS));
    t.same(days[1], days[0]);
    t.same(await ask(one, 'SELECT * FROM visit_days WHERE is_open'), []);
    t.same(await answers(one), expected, 'from totals of days that are over');
  });
});

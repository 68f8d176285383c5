// VISIT_RETENTION_DAYS: visits go when they are old, by a TTL that follows the setting; what was totalled stays.

import t from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { migrate } from '../../src/clickhouse/migrate.js';
import { keepVisitsFor } from '../../src/clickhouse/visit-retention.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { until } from '../harness/until.js';

const DAY_MS = 86_400_000;

t.test('the TTL of visits', async (t) => {
  const server = await startTestClickHouse({ databases: ['shop'] });
  const admin = createClickHouse(server.url);
  const own = createClickHouse(server.url, 'shop');
  t.teardown(async () => {
    await own.close();
    await admin.close();
    await server.stop();
  });
  const ask = async <T>(query: string) => await (await own.query({ query, format: 'JSONEachRow' })).json<T>();
  const ttl = async () => {
    const [table] = await ask<{ engine_full: string }>(
      "SELECT engine_full FROM system.tables WHERE database = 'shop' AND name = 'visits_stored'",
    );
    return /TTL (.*?) SETTINGS/.exec(table?.engine_full ?? '')?.[1];
  };
  const visits = async () => {
    const rows = await ask<{ profile_id: string }>('SELECT profile_id FROM visits ORDER BY profile_id');
    return rows.map(({ profile_id }) => profile_id);
  };

  t.test('is changed where it is another one, and only there', async (t) => {
    t.equal(await ttl(), undefined);
    t.equal(await keepVisitsFor(admin, 'shop', 0), false);
    t.equal(await keepVisitsFor(admin, 'shop', 400), true);
    t.equal(await ttl(), 'toStartOfDay(occurred_at) + toIntervalDay(401)');
    t.equal(await keepVisitsFor(admin, 'shop', 400), false);
    t.equal(await keepVisitsFor(admin, 'shop', 0), true);
    t.equal(await ttl(), undefined);
    t.same(await migrate(admin, 'shop'), [], 'and is no change of the schema');
  });

  t.test('takes what is older, at once where it gets shorter; totals stay', async (t) => {
    const now = Date.now();
    const rowOf = (days: number) => ({
      ...{ stream: 0, entry: days, place: 0, profile_id: `of-${days}`, product_handle: 'p', device: '' },
      occurred_at: new Date(now - days * DAY_MS).toISOString().slice(0, 23).replace('T', ' '),
    });
    await own.insert({ table: 'visits_stored', values: [9, 12, 30, 60].map(rowOf), format: 'JSONEachRow' });
    await totalDays(own, now + 2 * QUIET_MS);
    const perDay = () =>
      ask('SELECT day, sum(visits) AS visits FROM visits_per_day GROUP BY day ORDER BY day');
    const totals = await perDay();
    t.equal(totals.length, 4);
    const left = async (...days: number[]) => {
      await until(`visits of ${days}`, async () => {
        // What ClickHouse does by itself every few hours.
        await own.command({ query: 'OPTIMIZE TABLE visits_stored FINAL' });
        return (await visits()).length === days.length;
      });
      t.same(await visits(), days.map((day) => `of-${day}`).sort());
      t.same(await perDay(), totals);
    };
    await keepVisitsFor(admin, 'shop', 40);
    await left(9, 12, 30);
    await keepVisitsFor(admin, 'shop', 10);
    await left(9);
    await keepVisitsFor(admin, 'shop', 0);
    await own.insert({ table: 'visits_stored', values: [rowOf(500)], format: 'JSONEachRow' });
    await own.command({ query: 'OPTIMIZE TABLE visits_stored FINAL' });
    t.same(await visits(), ['of-500', 'of-9'], 'for ever');
  });
});

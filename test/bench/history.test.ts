// The demo's history: marked as such, and what the dashboard's views need to have something to show.

import t from 'tap';
import { DAYS, makeHistory } from '../../bench/demo/history.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { PANELS, statementOf } from '../../src/dashboard/panels.js';
import { startTestClickHouse } from '../harness/clickhouse.js';

t.test('weeks of it, every row marked, and the same when it is made again', async (t) => {
  const server = await startTestClickHouse({ databases: ['shop'] });
  t.teardown(() => server.stop());
  const client = createClickHouse(server.url, 'shop');
  t.teardown(() => client.close());
  const ask = async (query: string) =>
    (await (await client.query({ query, format: 'JSONEachRow' })).json()) as Record<string, unknown>[];
  const now = Date.UTC(2026, 2, 1, 12);
  const counts = () =>
    ask(
      'SELECT (SELECT count() FROM visits) AS visits, (SELECT count() FROM events) AS events, (SELECT count() FROM purchases) AS lines',
    );
  await makeHistory(client, now);
  const [first] = await counts();
  t.ok(Number(first?.visits) > 50_000, `${first?.visits} visits`);
  t.ok(Number(first?.lines) > 300, `${first?.lines} lines of orders`);
  await makeHistory(client, now);
  t.same(await counts(), [first], 'nothing twice');
  for (const table of ['visits', 'events', 'purchases'])
    t.same(
      await ask(
        `SELECT count() AS n, countIf(occurred_at >= '2026-03-01') AS today FROM ${table} WHERE NOT startsWith(profile_id, 'demo.') OR occurred_at >= '2026-03-01'`,
      ),
      [{ n: 0, today: 0 }],
      table,
    );
  t.same(await ask('SELECT uniqExact(toDate(occurred_at)) AS days FROM visits'), [{ days: DAYS }]);
  for (const panel of PANELS) {
    const rows = await ask(statementOf(panel, { from: '2026-02-01', to: '2026-02-28' }));
    t.ok(rows.length > 0, panel.name);
  }
});

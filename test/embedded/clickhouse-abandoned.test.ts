// Statements of analysts that never end, and whose clients may have left: they do not stop other users.

import t, { type Test } from 'tap';
import { eraseRows } from '../../src/clickhouse/erase.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { VisitorRowReader } from '../../src/clickhouse/visitor-rows.js';
import { never } from '../clickhouse/databases.js';
import { dashboardOfShop, MONTH } from '../dashboard/fixtures.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { until } from '../harness/until.js';

// Nothing ends by its limit.
const { url, client, clickhouseUrl, session } = await dashboardOfShop(t, { analystSeconds: 86_400 });
const { origin } = new URL(clickhouseUrl);
const cookie = await session();
let profiles = 0;

/** By whole results and by streams, at work and asleep, as the plan is made and after it; none ends in a day. */
const ENDLESS = [
  'SELECT count() FROM numbers(10000000000000)',
  'SELECT count() FROM numbers(10000000000000) FORMAT JSON',
  'SELECT sleepEachRow(1) FROM numbers(100000)',
  'SELECT count(sleepEachRow(1)) FROM numbers(100000)',
  'SELECT (SELECT count() FROM numbers(10000000000000))',
  'SELECT number FROM numbers(10000000000000) FORMAT JSONEachRow',
  'SELECT number, count() FROM numbers(10000000000000) GROUP BY number % 10 AS number',
];

function ask(sql: string, signal?: AbortSignal): Promise<Response> {
  const settings = new URLSearchParams({ user: 'analyst', max_block_size: '1', max_threads: '1' });
  return fetch(`${origin}/?${settings}`, { method: 'POST', body: sql, ...(signal ? { signal } : {}) });
}

async function running(): Promise<number> {
  const query = `SELECT toUInt32(count()) AS n FROM system.processes
    WHERE query LIKE '%100000%' AND query NOT LIKE '%system.processes%'`;
  const answer = await client.query({ query, format: 'JSONEachRow' });
  return (await answer.json<{ n: number }>())[0]?.n ?? 0;
}

/** More statements than there are places for. @returns what makes their clients leave */
async function occupy(sent: readonly string[]): Promise<() => void> {
  const clients = new AbortController();
  for (const sql of sent) ask(sql, clients.signal).catch(() => {});
  await until('statements of the analyst run', async () => (await running()) >= 3);
  return () => clients.abort();
}

async function othersGoOn(t: Test): Promise<void> {
  const panel = await fetch(`${url}/panels/products?from=${MONTH.from}&to=${MONTH.to}`, {
    headers: { cookie },
  });
  t.equal(panel.status, 200, 'the dashboard');
  const profileId = `1a.s${'A'.repeat(15)}${++profiles}`;
  const row = eventRow({ profile_id: profileId, occurred_at: new Date(0).toISOString() });
  await insertEvents(client, Buffer.from(lineOf(row)), profileId, never);
  const reader = new VisitorRowReader(() => clickhouseUrl, 'shop');
  t.teardown(() => reader.close());
  t.equal((await reader.read([profileId], [], new Map()))?.events.length, 1, 'the export');
  const now = Date.now();
  await eraseRows(client, new Map([[profileId, { until: { server: now, redis: now } }]]));
  t.equal((await reader.read([profileId], [], new Map()))?.events.length, 0, 'an erasure');
}

t.test('statements that their clients left hold up nothing', async (t) => {
  const leave = await occupy(ENDLESS);
  leave();
  t.equal(await (await ask('SELECT 1')).text(), '1\n');
  await othersGoOn(t);
  await until('none of them runs', async () => (await running()) === 0);
});

t.test('statements that go on leave places for the dashboard, exports and erasures', async (t) => {
  const leave = await occupy([...ENDLESS, ...ENDLESS]);
  await othersGoOn(t);
  t.not(await running(), 0);
  leave();
});

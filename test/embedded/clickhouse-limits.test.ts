// Limits of an analyst's statement in the embedded ClickHouse, of time and of memory, which it can only tighten; and statements
// that go on for ever, whose clients may have left, do not stop other users.

import { once } from 'node:events';
import { request } from 'node:http';
import t, { type Test } from 'tap';
import { eraseRows } from '../../src/clickhouse/erase.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { VisitorRowReader } from '../../src/clickhouse/visitor-rows.js';
import { never } from '../clickhouse/databases.js';
import { dashboardOfShop, MONTH } from '../dashboard/fixtures.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { until } from '../harness/until.js';
import { openClickHouse } from './fixtures.js';

const { origin, post, one, rows } = await openClickHouse(t, { analystSeconds: 1 });
const analyst = { 'x-clickhouse-user': 'analyst' };
const TOLD = /Code: 159\. DB::Exception: Timeout exceeded: .* analyst may run 1 s; see ANALYST_MAX_SECONDS/;

t.test('a statement of the analyst ends at ANALYST_MAX_SECONDS, and says so', async (t) => {
  const block = { max_block_size: '1' };
  const asleep = 'SELECT sleepEachRow(0.01) FROM numbers(100000) FORMAT TSV';
  const whole = 'SELECT count(sleepEachRow(0.01)) FROM numbers(100000) FORMAT JSON';
  const busy = 'SELECT count() FROM numbers(10000000000000)';
  const [unlimited, longer, streamed] = await Promise.all([
    post({ ...block, max_execution_time: '0' }, whole, analyst),
    post({ ...block, max_execution_time: '86400' }, busy, analyst),
    post(block, asleep, analyst),
  ]);
  t.match(unlimited, { status: 408, text: TOLD });
  t.match(longer, { status: 408, text: TOLD });
  t.match(streamed.text, /^0\n/);
  t.match(streamed.text, TOLD);
  const shorter = await post({ ...block, max_execution_time: '0.1' }, asleep, analyst);
  t.match(shorter.text, /Timeout exceeded: elapsed/, 'at its own limit, where that is shorter');
});

t.test('a client that does not read its answer keeps no place', async (t) => {
  const stalled = Array.from({ length: 4 }, async () => {
    const sent = request(`${origin}/?user=analyst`, { method: 'POST' });
    sent.on('error', () => {});
    sent.end('SELECT number FROM numbers(10000000000000) FORMAT TSV');
    const [response] = await once(sent, 'response');
    response.on('error', () => {});
    return sent;
  });
  await Promise.all(stalled.slice(0, 3));
  t.equal((await post({}, 'SELECT 1', analyst)).text, '1\n');
  for (const sent of await Promise.all(stalled)) sent.destroy();
  await until('none of them runs', async () => {
    const [left] = await rows<{ n: number }>(
      "SELECT toUInt32(count()) AS n FROM system.processes WHERE query LIKE '%10000000000000%' AND query NOT LIKE '%processes%'",
    );
    return left?.n === 0;
  });
});

t.test('a statement of the service has no such limit', async (t) => {
  t.equal(await one('SELECT sleep(2)'), '0');
});

t.test('the memory, threads and temporary files of a statement of the analyst are bounded', async (t) => {
  const setting = async (name: string, asked?: string) =>
    Number(
      (await post(asked ? { [name]: asked } : {}, `SELECT toUInt64(getSetting('${name}'))`, analyst)).text,
    );
  for (const name of ['max_memory_usage', 'max_threads', 'max_temporary_data_on_disk_size_for_query']) {
    const bound = await setting(name);
    t.ok(bound > 0, name);
    for (const more of ['0', '18446744073709551615', '-1', 'x', '1e30', 'auto'])
      t.equal(await setting(name, more), bound, `${name} = ${more}`);
    t.equal(await setting(name, '1'), 1, `${name} can be less`);
  }
  const most = await setting('max_memory_usage');
  const inAll = Number(
    await one("SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'"),
  );
  t.ok(most <= inAll / 8, 'six of them leave a quarter of it to the service');
  const greedy = await post(
    { max_memory_usage: '0' },
    'SELECT groupArray(number) FROM numbers(1000000000)',
    analyst,
  );
  t.match(greedy.text, /MEMORY_LIMIT_EXCEEDED|ANALYST_MAX_SECONDS/);
  for (const name of ['max_memory_usage_for_user', 'max_untracked_memory'])
    t.match(await post({ [name]: '1' }, 'SELECT 1', analyst), { status: 403 }, name);
});

t.test('what has to be held whole in memory is bounded, and never cut short unasked', async (t) => {
  const sql = 'SELECT number FROM numbers(1000001)';
  for (const mode of ['throw', 'break']) {
    const asked: Record<string, string> = { result_overflow_mode: mode, max_threads: '1' };
    t.match(
      await post(asked, `${sql} FORMAT JSONCompact`, analyst),
      { text: /TOO_MANY_ROWS_OR_BYTES/ },
      mode,
    );
    const cut = await post({ ...asked, max_result_rows: '1' }, `${sql} FORMAT JSONCompact`, analyst);
    t.match(cut.text, mode === 'throw' ? /TOO_MANY_ROWS_OR_BYTES/ : /"rows": 65/, `${mode} as asked`);
  }
  t.match(await post({}, "SELECT repeat('x', 900000 + number) FROM numbers(200) FORMAT XML", analyst), {
    text: /TOO_MANY_ROWS_OR_BYTES/,
  });
});

t.test('formats with names stream: the names come once, whatever they are', async (t) => {
  const columns = 'number AS a, toString(number) AS `b\n"c`';
  for (const format of [
    'TabSeparatedWithNames',
    'TSVRawWithNamesAndTypes',
    'CSVWithNames',
    'CSVWithNamesAndTypes',
    'JSONCompactEachRowWithNamesAndTypes',
    'JSONCompactStringsEachRowWithNames',
    'RowBinaryWithNames',
    'RowBinaryWithNamesAndTypes',
  ]) {
    const get = async (rows: number, blocks: string, more = '') => {
      const sql = `SELECT ${columns} FROM numbers(${rows}) ${more} FORMAT ${format}`;
      const settings = new URLSearchParams({ max_block_size: blocks, max_threads: '1' });
      return await (await fetch(`${origin}/?${settings}`, { method: 'POST', body: sql })).text();
    };
    t.equal(await get(1_000, '300'), await get(1_000, '1000'), format);
    t.equal(await get(5, '7', 'WHERE number > 9'), await get(0, '1000'), `${format}, no rows`);
  }
  const large = await post({}, 'SELECT number FROM numbers(1000001) FORMAT RowBinaryWithNames', analyst);
  t.equal(large.status, 200, 'more rows than are held whole');
});

// Nothing ends by its limit.
const shop = await dashboardOfShop(t, { analystSeconds: 86_400 });
const cookie = await shop.session();
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
  return fetch(`${new URL(shop.clickhouseUrl).origin}/?${settings}`, {
    method: 'POST',
    body: sql,
    ...(signal ? { signal } : {}),
  });
}

async function running(): Promise<number> {
  const query = `SELECT toUInt32(count()) AS n FROM system.processes
    WHERE query LIKE '%100000%' AND query NOT LIKE '%system.processes%'`;
  const answer = await shop.client.query({ query, format: 'JSONEachRow' });
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
  const panel = await fetch(`${shop.url}/panels/products?from=${MONTH.from}&to=${MONTH.to}`, {
    headers: { cookie },
  });
  t.equal(panel.status, 200, 'the dashboard');
  const profileId = `1a.s${'A'.repeat(15)}${++profiles}`;
  const row = eventRow({ profile_id: profileId, occurred_at: new Date(0).toISOString() });
  await insertEvents(shop.client, Buffer.from(lineOf(row)), profileId, never);
  const reader = new VisitorRowReader(() => shop.clickhouseUrl, 'shop');
  t.teardown(() => reader.close());
  t.equal((await reader.read([profileId], [], new Map()))?.events.length, 1, 'the export');
  const now = Date.now();
  await eraseRows(shop.client, new Map([[profileId, { until: { server: now, redis: now } }]]));
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

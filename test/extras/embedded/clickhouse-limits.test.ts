// An analyst's statement has limits of time and memory, which it can only tighten; no request waits for endless statements.

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import t, { type Test } from 'tap';
import { eraseRows } from '../../../src/clickhouse/erase.js';
import { insertEvents } from '../../../src/clickhouse/insert.js';
import { VisitorRowReader } from '../../../src/clickhouse/visitor-rows.js';
import { never } from '../../clickhouse/databases.js';
import { eventRow, lineOf } from '../../flush/fixtures.js';
import { select } from '../../harness/clickhouse.js';
import { until } from '../../harness/until.js';
import { dashboardOfShop, RANGE } from '../dashboard/fixtures.js';
import { analyst, openClickHouse } from './fixtures.js';

// In the second server no statement reaches its limit.
const [{ server, origin, credentials, post, one }, shop] = await Promise.all([
  openClickHouse(t, { analystSeconds: 1, restart: false }),
  dashboardOfShop(t, { analystSeconds: 86_400, restart: false }),
]);
// A stream whose client has left would delay an orderly stop by seconds.
t.teardown(() => {
  for (const pid of [server.pid, shop.pid]) if (pid !== undefined) process.kill(pid, 'SIGKILL');
});

/**
 * More clients that do not read than the analyst has slots. The slots are free some seconds later; other
 * tests run meanwhile.
 */
const UNREAD = 'SELECT number FROM numbers(77777777777777) FORMAT TSV';
const stalled = Array.from({ length: 4 }, async () => {
  const sent = request(`${origin}/?user=analyst`, { method: 'POST' });
  sent.on('error', () => {});
  sent.end(UNREAD);
  const [response] = await once(sent, 'response');
  response.on('error', () => {});
  return sent;
});
await Promise.all(stalled.slice(0, 3));
const afterStalled = post({}, 'SELECT 1', analyst);

t.test('a large result streams, and a client that leaves in the middle frees its slot', async (t) => {
  // More than there are slots for reads.
  for (let i = 0; i < 8; i++) {
    const client = new AbortController();
    const body = 'SELECT number FROM numbers(1000000000) FORMAT TSV';
    const init = { method: 'POST', headers: credentials, body, signal: client.signal };
    const answer = await fetch(origin, init);
    const first = await answer.body?.getReader().read();
    t.equal(first?.done, false);
    client.abort();
  }
  t.equal(await one('SELECT 1'), '1');
});

const cookie = await shop.session();
let profiles = 0;

/** Statements that run for days: with whole and streamed results, busy and asleep, during planning and after. */
const ENDLESS = [
  'SELECT count() FROM numbers(10000000000000)',
  'SELECT sleepEachRow(1) FROM numbers(100000)',
  'SELECT count(sleepEachRow(1)) FROM numbers(100000)',
  'SELECT (SELECT count() FROM numbers(10000000000000))',
  'SELECT number FROM numbers(10000000000000) FORMAT JSONEachRow',
];

function ask(sql: string, signal?: AbortSignal): Promise<Response> {
  const settings = new URLSearchParams({ user: 'analyst', max_block_size: '1', max_threads: '1' });
  const init = { method: 'POST', body: sql, ...(signal ? { signal } : {}) };
  return fetch(`${new URL(shop.clickhouseUrl).origin}/?${settings}`, init);
}

async function runningInShop(): Promise<number> {
  const processes = `SELECT query_id FROM system.processes
    WHERE query LIKE '%100000%' AND query NOT LIKE '%system.processes%'`;
  return (await select(shop.client, processes)).length;
}

/** Sends more statements than there are slots. @returns a function that aborts their clients */
async function occupy(sent: readonly string[]): Promise<() => void> {
  const clients = new AbortController();
  for (const sql of sent) ask(sql, clients.signal).catch(() => {});
  await until('statements of the analyst run', async () => (await runningInShop()) >= 3);
  return () => clients.abort();
}

async function othersGoOn(t: Test): Promise<void> {
  const panel = await fetch(`${shop.url}/panels/products?${RANGE}`, { headers: { cookie } });
  t.equal(panel.status, 200, 'the dashboard');
  const profileId = `1a.s${'A'.repeat(15)}${++profiles}`;
  const row = eventRow({ profile_id: profileId, occurred_at: new Date(0).toISOString() });
  await insertEvents(shop.client, Buffer.from(lineOf(row)), never);
  const reader = new VisitorRowReader(() => shop.clickhouseUrl, 'shop');
  t.teardown(() => reader.close());
  const exported = async () => {
    const owners = { profiles: [profileId], customers: [], erased: new Map() };
    let rows = 0;
    for await (const texts of (await reader.read('events', owners, never)) ?? []) rows += texts.length;
    return rows;
  };
  t.equal(await exported(), 1, 'the export');
  const now = Date.now();
  await eraseRows(shop.client, new Map([[profileId, `${now} ${now}`]]));
  t.equal(await exported(), 0, 'an erasure');
}

t.test('endless statements, with their clients or without, delay no other request', async (t) => {
  const leave = await occupy([...ENDLESS, ...ENDLESS]);
  await othersGoOn(t);
  t.not(await runningInShop(), 0);
  leave();
  t.equal(await (await ask('SELECT 1')).text(), '1\n');
  await until('none of them runs', async () => (await runningInShop()) === 0);
});

t.test('a client that does not read its answer frees its slot', async (t) => {
  t.equal((await afterStalled).text, '1\n');
  for (const sent of await Promise.all(stalled)) sent.destroy();
  await until('none of them runs', async () => (await running('7777777)')) === 0);
});

const TOLD = /Code: 159\. DB::Exception: Timeout exceeded: .* analyst may run 1 s; see ANALYST_MAX_SECONDS/;

t.test(
  'statements of the analyst end at ANALYST_MAX_SECONDS, which max_execution_time in the URL can only shorten',
  async (t) => {
    const block = { max_block_size: '1' };
    const asleep = 'SELECT sleepEachRow(0.01) FROM numbers(100000) FORMAT TSV';
    const whole = 'SELECT count(sleepEachRow(0.01)) FROM numbers(100000) FORMAT JSON';
    const busy = 'SELECT count() FROM numbers(10000000000000)';
    const endless = 'SELECT number FROM numbers(77777777777777) FORMAT TSV';
    const behind = await post({}, endless, analyst);
    const [unlimited, longer, streamed, ofService] = await Promise.all([
      post({ ...block, max_execution_time: '0' }, whole, analyst),
      post({ ...block, max_execution_time: '86400' }, busy, analyst),
      post(block, asleep, analyst),
      one('SELECT sleep(2)'),
    ]);
    t.equal(ofService, '0');
    t.match(unlimited, { status: 408, text: TOLD });
    t.match(longer, { status: 408, text: TOLD });
    t.match(streamed, { status: 408, text: TOLD });
    t.match(behind.text, /^0\n/);
    t.match(behind.text, TOLD, 'behind the rows that were sent already');
    const shorter = await post({ ...block, max_execution_time: '0.1' }, asleep, analyst);
    t.match(shorter.text, /Timeout exceeded: elapsed/, 'at its own limit, where that is shorter');
  },
);

t.test(
  'limits that the analyst sets for one statement are clamped, and limits for all statements are refused',
  async (t) => {
    const setting = async (name: string, asked?: string) => {
      const sql = `SELECT toUInt64(getSetting('${name}'))`;
      return Number((await post(asked ? { [name]: asked } : {}, sql, analyst)).text);
    };
    for (const name of ['max_memory_usage', 'max_threads', 'max_temporary_data_on_disk_size_for_query']) {
      const bound = await setting(name);
      t.ok(bound > 0, name);
      for (const more of ['0', '18446744073709551615', '-1', 'x', '1e30', 'auto'])
        t.equal(await setting(name, more), bound, `${name} = ${more}`);
      t.equal(await setting(name, '1'), 1, `${name} can be less`);
    }
    const most = await setting('max_memory_usage');
    const ofServer = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'";
    const inAll = Number(await one(ofServer));
    t.ok(most <= inAll / 8, 'six of them leave a quarter of it to the service');
    const hoard = 'SELECT groupArray(number) FROM numbers(1000000000)';
    const greedy = await post({ max_memory_usage: '0' }, hoard, analyst);
    t.match(greedy.text, /MEMORY_LIMIT_EXCEEDED|ANALYST_MAX_SECONDS/);
    for (const name of ['max_memory_usage_for_user', 'max_untracked_memory'])
      t.match(await post({ [name]: '1' }, 'SELECT 1', analyst), { status: 403 }, name);
  },
);

t.test('a result of any length arrives whole, also as one document, and is not held in memory', async (t) => {
  const memory = async () =>
    Number(/VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024;
  const before = await memory();
  const sql = "SELECT repeat('x', 1000) AS x FROM numbers(350000) FORMAT JSONCompact";
  const init = { method: 'POST', body: sql, headers: credentials };
  const answer = await fetch(`${origin}/?max_block_size=1000`, init);
  let bytes = 0;
  let most = 0;
  let last = Buffer.alloc(0);
  for await (const chunk of answer.body ?? []) {
    if (bytes >> 26 !== (bytes + chunk.length) >> 26) most = Math.max(most, await memory());
    bytes += chunk.length;
    last = Buffer.from(chunk);
  }
  t.ok(bytes > 350_000_000, `${bytes} bytes`);
  t.match(last.toString(), /"rows": 350000,/, 'to its end');
  t.ok(most - before < 250, `${before} MiB and then ${most}`);
});

t.test('a result is cut short if a request asks for it by result_overflow_mode', async (t) => {
  const sql = 'SELECT number FROM numbers(1000001) FORMAT JSONCompact';
  for (const mode of ['throw', 'break']) {
    const asked = { result_overflow_mode: mode, max_threads: '1', max_result_rows: '1' };
    const { text } = await post(asked, sql, analyst);
    t.match(text, mode === 'throw' ? /TOO_MANY_ROWS_OR_BYTES/ : /"rows": 65/, mode);
  }
});

async function running(part = '00000)'): Promise<number> {
  const sql = `SELECT count() FROM system.processes WHERE query LIKE '%${part}%' AND query NOT LIKE '%processes%'`;
  return Number(await one(sql));
}

// An insert of events under a profile that would have it otherwise: asynchronous and not waited for, parsed in
// parallel, in blocks of a few rows. It is one block all the same, stored when it is acknowledged, and once.
//
// The embedded ClickHouse never inserts asynchronously, so what a server would do with that is not to be seen
// here. What can be seen is the setting under which the insert ran: a column's default tells.

import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import t from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { INSERT_BYTES, INSERT_ROWS, insertEvents } from '../../src/clickhouse/insert.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { startTestClickHouse } from '../harness/clickhouse.js';

/** What the profile says, and what the insert runs under. */
const SETTINGS: Readonly<Record<string, readonly [hostile: string, own: string]>> = {
  async_insert: ['1', 'false'],
  input_format_parallel_parsing: ['1', 'false'],
  max_insert_block_size: ['10', '1048576'],
  min_insert_block_size_rows: ['10', '1048576'],
  min_insert_block_size_bytes: ['100', '268435456'],
  input_format_skip_unknown_fields: ['0', 'true'],
  input_format_json_read_objects_as_strings: ['0', 'true'],
  date_time_input_format: ['basic', 'best_effort'],
};

const server = await startTestClickHouse({ databases: ['shop'] });
const admin = createClickHouse(server.url);
/** What a client sends with every request stands for a profile: both give way to what an insert says itself. */
const client = createClient({
  url: server.url,
  database: 'shop',
  clickhouse_settings: {
    ...Object.fromEntries(Object.entries(SETTINGS).map(([name, [hostile]]) => [name, hostile])),
    wait_for_async_insert: 0,
  },
  log: { level: ClickHouseLogLevel.OFF },
});
t.teardown(async () => {
  await Promise.all([client.close(), admin.close()]);
  await server.stop();
});

const never = new AbortController().signal;
const ask = async (query: string) => {
  const answer = await client.query({ query, format: 'JSONEachRow' });
  return await answer.json<Record<string, unknown>>();
};
const stored = async () => Number((await ask('SELECT count() AS n FROM events_stored'))[0]?.['n']);
const batch = (n: number) =>
  Buffer.from(Array.from({ length: n }, (_, i) => lineOf(eventRow({ payload: { i } }))).join(''));

t.test('an acknowledged insert is stored, in one block, and once under its token', async (t) => {
  const lines = batch(500);
  await insertEvents(client, lines, 'token', never);
  t.equal(await stored(), 500, 'when it is acknowledged');
  t.same(
    await ask("SELECT DISTINCT splitByChar('_', _part)[2] AS block FROM events_stored"),
    [{ block: '1' }],
    'one block',
  );
  await insertEvents(client, lines, 'token', never);
  t.equal(await stored(), 500, 'again under its token');
  await insertEvents(client, lines, 'other', never);
  t.equal(await stored(), 1_000, 'the token is what tells');
});

t.test('the largest insert is one block, too', async (t) => {
  const note = 'x'.repeat(
    INSERT_BYTES / INSERT_ROWS - lineOf(eventRow({ payload: { i: 1e5, note: '' } })).length - 1,
  );
  const lines = Buffer.from(
    Array.from({ length: INSERT_ROWS }, (_, i) => lineOf(eventRow({ payload: { i, note } }))).join(''),
  );
  t.ok(lines.length > INSERT_BYTES * 0.98 && lines.length <= INSERT_BYTES, `${lines.length} bytes`);
  const blocks = async () =>
    await ask(
      "SELECT splitByChar('_', _part)[3] AS last, toUInt32(count()) AS rows FROM events_stored GROUP BY last",
    );
  const before = await blocks();
  await admin.command({ query: 'SYSTEM STOP MERGES shop.events_stored' });
  await insertEvents(client, lines, 'large', never);
  const after = await blocks();
  await admin.command({ query: 'SYSTEM START MERGES shop.events_stored' });
  t.equal(after.length, before.length + 1);
  t.ok(after.some(({ rows }) => rows === INSERT_ROWS));
});

t.test('an insert with a bad line is refused as a whole, at once', async (t) => {
  const before = await stored();
  const bad = Buffer.concat([batch(50), Buffer.from('{"event_id":"nonsense"}\n'), batch(50)]);
  await t.rejects(insertEvents(client, bad, 'bad', never), { code: /^\d+$/ });
  t.equal(await stored(), before);
});

t.test('no setting of the profile that matters holds for the insert', async (t) => {
  for (const name of Object.keys(SETTINGS))
    await admin.command({
      query: `ALTER TABLE shop.events_stored ADD COLUMN seen_${name} String DEFAULT toString(getSetting('${name}'))`,
    });
  await insertEvents(client, Buffer.from(lineOf(eventRow({ profile_id: 'seen' }))), 'seen', never);
  const names = Object.keys(SETTINGS).map((name) => `seen_${name} AS ${name}`);
  t.same(await ask(`SELECT ${names.join(', ')} FROM events_stored WHERE profile_id = 'seen'`), [
    Object.fromEntries(Object.entries(SETTINGS).map(([name, [, own]]) => [name, own])),
  ]);
});

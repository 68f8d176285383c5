// An insert is one block, stored when it is acknowledged and shown once, even under a hostile profile; its
// lines fill the columns. The embedded ClickHouse never inserts asynchronously, so the default of a column
// records the settings of an insert.

import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import t from 'tap';
import { blame } from '../../src/clickhouse/blame.js';
import { INSERT_BYTES, INSERT_ROWS, insertEvents, insertVisits } from '../../src/clickhouse/insert.js';
import { encodeEvent } from '../../src/events/row.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';

/** Each setting's value in the profile, and during an insert. */
const SETTINGS: Readonly<Record<string, readonly [hostile: string, own: string]>> = {
  async_insert: ['1', 'false'],
  insert_deduplicate: ['1', 'false'],
  input_format_parallel_parsing: ['1', 'false'],
  max_insert_block_size: ['10', '1048576'],
  min_insert_block_size_rows: ['10', '1048576'],
  min_insert_block_size_bytes: ['100', '268435456'],
  input_format_skip_unknown_fields: ['0', 'true'],
  input_format_json_read_objects_as_strings: ['0', 'true'],
  date_time_input_format: ['basic', 'best_effort'],
};

const { url, client: admin, own, migrated, emptied, insert, ask: askOwn } = await startDatabases(t, 1);
const { database: hostile } = migrated(t);
/** Settings sent with every request stand in for a profile: an insert's own settings override both. */
const client = createClient({
  url,
  database: hostile,
  clickhouse_settings: {
    ...Object.fromEntries(Object.entries(SETTINGS).map(([name, [hostile]]) => [name, hostile])),
    wait_for_async_insert: 0,
  },
  log: { level: ClickHouseLogLevel.OFF },
});
t.teardown(() => client.close());

const ask = (query: string) => askOwn<Record<string, unknown>>(query, client);
const stored = async () => Number((await ask('SELECT count() AS n FROM events_stored'))[0]?.['n']);
const batch = (n: number, note = '') =>
  Buffer.from(Array.from({ length: n }, (_, i) => lineOf(eventRow({ payload: { i, note } }))).join(''));

t.test('an acknowledged insert is stored, in one block, and shown once when it is repeated', async (t) => {
  const lines = batch(500);
  await insertEvents(client, lines, never);
  t.equal(await stored(), 500, 'when it is acknowledged');
  t.same(await ask("SELECT uniq(splitByChar('_', _part)[2]) AS blocks FROM events_stored"), [
    { blocks: '1' },
  ]);
  await insertEvents(client, lines, never);
  t.equal(await stored(), 1_000, 'again: stored again, so that a block whose rows were lost is there');
  t.same(await ask('SELECT count() AS n FROM events'), [{ n: '500' }], 'and shown once');
});

t.test('the largest insert is one block', async (t) => {
  const shortest = lineOf(eventRow({ payload: { i: 1e5, note: '' } })).length + 1;
  const lines = batch(INSERT_ROWS, 'x'.repeat(INSERT_BYTES / INSERT_ROWS - shortest));
  t.ok(lines.length > INSERT_BYTES * 0.98 && lines.length <= INSERT_BYTES, `${lines.length} bytes`);
  const blocks = () =>
    ask("SELECT splitByChar('_', _part)[3] AS last, count() AS rows FROM events_stored GROUP BY last");
  const before = await blocks();
  await admin.command({ query: `SYSTEM STOP MERGES ${hostile}.events_stored` });
  await insertEvents(client, lines, never);
  const after = await blocks();
  await admin.command({ query: `SYSTEM START MERGES ${hostile}.events_stored` });
  t.equal(after.length, before.length + 1);
  t.ok(after.some(({ rows }) => Number(rows) === INSERT_ROWS));
});

t.test('an insert with a bad line is refused as a whole, at once', async (t) => {
  const before = await stored();
  const bad = Buffer.concat([batch(50), Buffer.from('{"event_id":"nonsense"}\n'), batch(50)]);
  await t.rejects(insertEvents(client, bad, never), { code: /^\d+$/ });
  t.equal(await stored(), before);
});

t.test('an insert overrides the settings of a hostile profile', async (t) => {
  for (const name of Object.keys(SETTINGS))
    await admin.command({
      query: `ALTER TABLE ${hostile}.events_stored ADD COLUMN seen_${name} String DEFAULT toString(getSetting('${name}'))`,
    });
  await insertEvents(client, Buffer.from(lineOf(eventRow({ profile_id: 'seen' }))), never);
  const names = Object.keys(SETTINGS).map((name) => `seen_${name} AS ${name}`);
  t.same(await ask(`SELECT ${names.join(', ')} FROM events_stored WHERE profile_id = 'seen'`), [
    Object.fromEntries(Object.entries(SETTINGS).map(([name, [, own]]) => [name, own])),
  ]);
});

/** 255 characters, 1,020 bytes. */
const HANDLE = '😀'.repeat(255);
t.test('the line of an event fills the table column by column', async (t) => {
  await emptied();
  const names = { email: 'a@b.example', firstName: 'A', lastName: 'B' };
  const identity = { customerId: '7', sessionId: 'ü-😀', device: 'desktop', locale: 'de', ...names };
  const payload = {
    productId: 'gid://shopify/Product/12',
    variantId: null,
    productHandle: HANDLE,
    source: 'pdp',
    quantity: 2,
    price: '19.90',
    compareAt: '25.00',
    currencyCode: 'EUR',
    inventoryAvailable: false,
    more: { deep: [1, 'two'], note: 'line\nbreak "quoted" \\ 😀 \u0000 \u2028', big: 'ü'.repeat(7_000) },
  };
  const at = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
  const line = encodeEvent({ type: 'add', origin: 'item', profileId: '1.sx', identity, payload, at });
  await insert(line);
  const [row] = await askOwn<Record<string, unknown>>('SELECT * EXCEPT event_id FROM events');
  t.same(row, {
    type: 'add',
    occurred_at: '2026-01-02 03:04:05.678',
    profile_id: '1.sx',
    customer_id: '7',
    session_id: 'ü-😀',
    device: 'desktop',
    locale: 'de',
    origin: 'item',
    product_id: '12',
    variant_id: '',
    product_handle: HANDLE,
    source: 'pdp',
    channel: '',
    share_code: '',
    currency: 'EUR',
    inventory_available: false,
    quantity: 2,
    price: 19.9,
    compare_at: 25,
    payload: JSON.stringify(payload),
  });
  t.notMatch(line, /a@b.example|firstName/, 'names and addresses stay out');
});

t.test('an unreadable line is blamed on the data, and a changed table on the server', async (t) => {
  await emptied();
  const event = lineOf(eventRow());
  const visit = '1767225600.123\t0\t12\t3\t12.sA\tshoe\tmobile\n';
  const blamed = async (insert: typeof insertEvents, line: string) =>
    insert(own, Buffer.from(line), never).then(() => 'nothing', blame);
  const field = (json: string) => event.replace('{', `{${json},`);
  const quantities = ['"two"', '-1', '1.5', '[]'].map((quantity) => `"quantity":${quantity}`);
  const others = ['"price":"1e99"', '"price":"x"', '"inventory_available":"two"', '"device":"\\ud800"'];
  const fields = [...quantities, ...others, '"channel"', '7:7', event.slice(1, 40)];
  for (const line of [
    ...fields.map(field),
    ...[event.slice(0, 20), event.slice(0, -3), event.slice(1), 'null\n', `${event.slice(0, -2)}\\`],
    event.replace(/"event_id":"..../, '"event_id":"'),
    event.replace(/"occurred_at":"?[\d-]+/, '"occurred_at":"soon'),
  ])
    t.equal(await blamed(insertEvents, line), 'data', line);
  for (const line of [
    ...[visit.slice(0, 20), visit.slice(0, -8), visit.slice(3), visit.replace('12\t3', 'x\t3'), '\n'],
    ...[visit.replace('\t0', '\t-1'), visit.replace('\n', '\tmore\n'), visit.replace('0.123', '0.x')],
  ])
    t.equal(await blamed(insertVisits, line), 'data', line);
  t.same(await askOwn('SELECT count() AS n FROM events_stored'), [{ n: '0' }]);
  t.equal(await blamed(insertVisits, visit), 'nothing');

  const change = (query: string) => own.command({ query });
  await change('RENAME TABLE visits_stored TO away');
  t.equal(await blamed(insertVisits, visit), 'server', 'without the table');
  await change('CREATE TABLE visits_stored (occurred_at DateTime) ENGINE = MergeTree ORDER BY ()');
  t.equal(await blamed(insertVisits, visit), 'server', 'without a column');
  await change('DROP TABLE visits_stored SYNC');
  await change('RENAME TABLE away TO visits_stored');
  t.equal(await blamed(insertVisits, visit), 'nothing');
});

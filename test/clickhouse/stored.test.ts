// Whether events are stored, asked of a real ClickHouse: over many ids, months, and lines that are not as ours.

import type { ClickHouseClient } from '@clickhouse/client';
import t from 'tap';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { areStored } from '../../src/clickhouse/stored.js';
import { type EventRow, eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';

const { migrated, clientOf } = await startDatabases();
const { database, own: client } = await migrated(t);

const linesOf = (rows: readonly EventRow[]) => Buffer.from(rows.map(lineOf).join(''));
const ask = (lines: Buffer | string, from = client) => areStored(from, Buffer.from(lines), never);
/** A second apart, from this time on. */
const events = (n: number, from: string) =>
  Array.from({ length: n }, (_, i) =>
    eventRow({ occurred_at: new Date(Date.parse(from) + i * 1_000).toISOString() }),
  );

/** The client, and what it was asked. */
function listening(): { client: ClickHouseClient; queries: string[] } {
  const queries: string[] = [];
  const query: ClickHouseClient['query'] = (params) => {
    queries.push(params.query);
    return client.query(params);
  };
  return { client: Object.assign(Object.create(client), { query }), queries };
}

// More than two queries' worth, over the turn of a month.
const stored = events(11_000, '2026-01-31T22:30:00.000Z');
await insertEvents(client, linesOf(stored), 'token', never);

t.test('all of them, some of them, none', async (t) => {
  t.equal(await ask(linesOf(stored)), true);
  t.equal(await ask(linesOf(stored.slice(0, 1))), true);
  t.equal(await ask(linesOf(stored).subarray(0, -1)), true, 'without the last newline');
  const other = eventRow();
  for (const at of [0, 4_999, 5_000, 10_999, 11_000])
    t.equal(await ask(linesOf(stored.toSpliced(at, 0, other))), false, `all but number ${at}`);
  t.equal(await ask(lineOf(other)), false);
});

t.test('an event that is there several times, in the table and in the lines', async (t) => {
  const some = stored.slice(0, 100);
  await client.command({ query: `SYSTEM STOP MERGES ${database}.events_stored` });
  await insertEvents(client, linesOf(some), 'again', never);
  t.equal(await ask(linesOf([...some, ...some])), true);
  t.equal(await ask(linesOf([...some, ...some, eventRow()])), false);
});

t.test('times and ids in other spellings', async (t) => {
  const row = eventRow({ occurred_at: '2026-03-01T00:00:00.123Z' });
  const at = Date.parse(row.occurred_at);
  const spelled = [
    `${JSON.stringify({ ...row, occurred_at: at })}\n`,
    `${JSON.stringify({ ...row, event_id: row.event_id.toUpperCase() })}\n`,
    `${JSON.stringify({ payload: { event_id: 'x', occurred_at: 0 }, ...row })}\n`,
  ];
  for (const line of spelled) t.equal(await ask(line), false);
  await insertEvents(client, Buffer.from(spelled[0] ?? ''), 'spelled', never);
  for (const line of spelled) t.equal(await ask(line), true, line);
});

t.test('lines without an id or a time are not found, and ask nothing', async (t) => {
  const { client: asked, queries } = listening();
  const time = '"occurred_at":1767225600000';
  const lines = [
    `{${time}}`,
    `{"event_id":"x') OR ('' = '",${time}}`,
    '{"event_id":"01990292-0000-7000-8000-000000000000"}',
    '{"event_id":"01990292-0000-7000-8000-000000000000","occurred_at":"soon"}',
    'null',
    '{"event_id":"01990292',
    '',
  ];
  for (const line of lines) t.equal(await ask(`${line}\n`, asked), false, line);
  t.same(queries, []);
});

t.test('reads one month, and as much of it as the events lie in', async (t) => {
  const { client: asked, queries } = listening();
  t.equal(await ask(linesOf(stored.slice(10_900)), asked), true);
  const plan = await client.query({
    query: `EXPLAIN indexes = 1, json = 1 ${queries[0]}`,
    format: 'TabSeparatedRaw',
  });
  const text = await plan.text();
  const selected = [...text.matchAll(/"Selected (Parts|Granules)": (\d+)/g)].map(
    ([, what, n]) => `${what} ${n}`,
  );
  t.same(selected.slice(-2), ['Parts 1', 'Granules 1'], text);
});

t.test('what fails is thrown', async (t) => {
  const elsewhere = clientOf(t, 'system');
  await t.rejects(ask(lineOf(eventRow()), elsewhere), { code: '60' });
  await t.rejects(areStored(client, linesOf(stored), AbortSignal.abort()));
});

// What @clickhouse/client may expect of a server, asked of ours.

import { Readable } from 'node:stream';
import { ClickHouseError } from '@clickhouse/client';
import t from 'tap';
import { openWorld } from './world.js';

const { client, rows, one, table } = await openWorld(t);

t.test('ping, queries in any format, inserts of rows and of streams', async (t) => {
  t.strictSame(await client.ping(), { success: true });
  t.strictSame(await client.ping({ select: true }), { success: true });
  t.strictSame(await rows('SELECT number AS n FROM numbers(2)'), [{ n: 0 }, { n: 1 }]);
  const whole = await (await client.query({ query: 'SELECT 1 AS n' })).json();
  t.match(whole, { meta: [{ name: 'n', type: 'UInt8' }], data: [{ n: 1 }], rows: 1 });

  const name = await table();
  const values = [
    { id: 1, s: "it's" },
    { id: 2, s: 'a\tb\n\u{1F600}' },
  ];
  const { summary, query_id } = await client.insert({ table: name, values, format: 'JSONEachRow' });
  t.match(summary, { written_rows: '2' });
  t.match(query_id, /^[0-9a-f-]{36}$/);
  await client.insert({
    table: name,
    values: Readable.from(Array.from({ length: 1_000 }, (_, i) => ({ id: 10 + i, s: 'x' }))),
    format: 'JSONEachRow',
  });
  await client.insert({
    table: name,
    values: Readable.from(['2000,"c"\n'], { objectMode: false }),
    format: 'CSV',
  });
  t.strictSame(await rows(`SELECT id, s FROM ${name} ORDER BY id LIMIT 2`), values);
  t.strictSame(await rows(`SELECT count() AS n FROM ${name}`), [{ n: 1_003 }]);
});

t.test('an error has the code, the type and the text that a server gives', async (t) => {
  const error = await client.query({ query: 'SELECT nope' }).catch((e: unknown) => e as ClickHouseError);
  t.type(error, ClickHouseError);
  t.match(error, {
    code: '47',
    type: 'UNKNOWN_IDENTIFIER',
    message: /^Unknown expression identifier `nope`/,
  });
  const insert = client.insert({ table: 'nowhere', values: [{ a: 1 }], format: 'JSONEachRow' });
  await t.rejects(insert, { code: '60', type: 'UNKNOWN_TABLE' });
  const name = await table();
  const badRow = client.insert({ table: name, values: [{ id: 'x' }], format: 'JSONEachRow' });
  await t.rejects(badRow, { code: '27', type: 'CANNOT_PARSE_INPUT_ASSERTION_FAILED', message: /at row 1/ });
  t.equal(await one(`SELECT count() FROM ${name}`), '0');
});

t.test('an error behind the first rows ends the stream as that error', async (t) => {
  const result = await client.query({
    query: 'SELECT throwIf(number = 500000) FROM numbers(1000000)',
    format: 'JSONEachRow',
    clickhouse_settings: { max_block_size: '1000' },
  });
  let seen = 0;
  const reading = async () => {
    for await (const some of result.stream()) seen += some.length;
  };
  await t.rejects(reading(), { code: '395', type: 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO' });
  t.ok(seen > 0);
});

t.test('parameters of every kind arrive as they were', async (t) => {
  const query_params = {
    u: 7,
    s: "tab\tnewline\nquote'back\\slash {x}",
    a: ['x', "y'"],
    d: new Date('2025-06-01T12:00:00Z'),
    n: null,
    m: { k: 1 },
    f: -1.5,
    b: true,
    i: 'system',
  };
  const result = await client.query({
    query: `SELECT {u:UInt32} AS u, {s:String} AS s, {a:Array(String)} AS a, {d:DateTime('UTC')} AS d,
      {n:Nullable(String)} AS n, {m:Map(String, UInt8)} AS m, {f:Float64} AS f, {b:Bool} AS b,
      (SELECT count() > 0 FROM {i:Identifier}.one) AS i`,
    query_params,
    format: 'JSONEachRow',
  });
  t.strictSame(await result.json(), [{ ...query_params, d: '2025-06-01 12:00:00', i: 1 }]);
});

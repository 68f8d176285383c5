// What @clickhouse/client, curl and dashboards may expect of ClickHouse's HTTP interface, asked of ours.

import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { type ClickHouseClient, ClickHouseError, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import t from 'tap';
import { startTestClickHouse } from '../harness/clickhouse.js';

const server = await startTestClickHouse();
const connect = (more: Parameters<typeof createClient>[0] = {}) =>
  createClient({ url: server.url, log: { level: ClickHouseLogLevel.OFF }, ...more });
const client = connect();
t.teardown(async () => {
  await client.close();
  await server.stop();
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

async function http(params: Record<string, string>, init: RequestInit = {}): Promise<Answer> {
  const answer = await fetch(`${server.url}/?${new URLSearchParams(params)}`, init);
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}
const post = (
  params: Record<string, string>,
  body: string | Buffer = '',
  headers: Record<string, string> = {},
) => http(params, { method: 'POST', body, headers });
const rows = async <T>(query: string, by: ClickHouseClient = client) =>
  (await by.query({ query, format: 'JSONEachRow' })).json<T>();
const one = async (sql: string) => (await post({}, sql)).text.trimEnd();

let tables = 0;
async function table(columns = 'id UInt32, s String', settings = ''): Promise<string> {
  const name = `t${++tables}`;
  await client.command({
    query: `CREATE TABLE ${name} (${columns}) ENGINE = MergeTree ORDER BY id ${settings}`,
  });
  return name;
}

t.test('@clickhouse/client: ping, queries in any format, inserts of rows and of streams', async (t) => {
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

t.test('@clickhouse/client: an error has the code, the type and the text that a server gives', async (t) => {
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

t.test('@clickhouse/client: an error behind the first rows ends the stream as that error', async (t) => {
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

t.test('@clickhouse/client: parameters of every kind arrive as they were', async (t) => {
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

t.test('parameters of requests at the same time are not mixed up', async (t) => {
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => post({ param_x: String(i) }, 'SELECT {x:UInt32}')),
  );
  t.strictSame(
    answers.map(({ text }) => Number(text)),
    answers.map((_, i) => i),
  );
});

t.test('a setting counts for its query only', async (t) => {
  const read = `SELECT getSetting('max_block_size'), getSetting('extremes')`;
  const before = await one(read);
  t.equal(
    (
      await post({ max_block_size: '77', extremes: '1' }, "SELECT getSetting('max_block_size') FORMAT CSV")
    ).text.split('\n')[0],
    '77',
  );
  t.equal((await post({}, `${read} SETTINGS max_block_size = 78`)).text.split('\t')[0], '78');
  await post({}, 'SET max_block_size = 79');
  await post({ max_block_size: '80' }, 'SELECT nope');
  t.equal(await one(read), before);
  t.match(await post({ max_blok_size: '1' }, 'SELECT 1'), {
    status: 404,
    text: /^Code: 115\..*\(UNKNOWN_SETTING\)/,
  });
  t.match(await post({ 'x; DROP TABLE y': '1' }, 'SELECT 1'), { status: 404, text: /\(UNKNOWN_SETTING\)/ });
  t.match(
    await post({ log_comment: "'; SELECT 1; --\\" }, "SELECT getSetting('log_comment') FORMAT TSVRaw"),
    {
      text: "'; SELECT 1; --\\\n",
    },
  );
});

t.test('the query may be in the URL, in the body, or begin in one and go on in the other', async (t) => {
  t.equal((await http({ query: 'SELECT 1' })).text, '1\n');
  t.equal((await post({}, 'SELECT 2')).text, '2\n');
  t.equal((await post({ query: 'SELECT 3 +' }, '4')).text, '7\n');
  const name = await table();
  await post({ query: `INSERT INTO ${name} FORMAT JSONEachRow` }, '{"id":1,"s":"a"}\n{"id":2,"s":"b"}');
  await post({}, `/* all of it */ INSERT INTO ${name} FORMAT TSV\n3\tc\n4\td\n`);
  await post({}, `INSERT INTO ${name} (id, s) VALUES (5, 'e'), (6, 'f; g')`);
  await post({}, `INSERT INTO ${name} SELECT number + 7, 'h' FROM numbers(2)`);
  t.equal(
    await one(`SELECT groupArray(s) FROM (SELECT s FROM ${name} ORDER BY id)`),
    "['a','b','c','d','e','f; g','h','h']",
  );
});

t.test('GET only reads', async (t) => {
  const answer = await http({ query: 'CREATE DATABASE never' });
  t.equal(answer.status, 500);
  t.equal(answer.headers.get('x-clickhouse-exception-code'), '164');
  t.match(answer.text, /\(READONLY\)/);
  t.equal((await http({ query: 'SELECT 1 SETTINGS max_threads = 1', max_block_size: '10' })).text, '1\n');
  const name = await table();
  t.equal((await http({ query: `INSERT INTO ${name} VALUES (1, 'x')` })).status, 500);
  t.equal((await http({ query: `INSERT INTO ${name} VALUES (1, 'x')`, readonly: '0' })).status, 500);
  t.equal((await http({ query: 'SELECT 1', readonly: '1' })).text, '1\n');
  t.equal((await post({ readonly: '1' }, `INSERT INTO ${name} VALUES (1, 'x')`)).status, 500);
  t.equal((await post({ readonly: '1', session_id: 'ro' }, 'SELECT 1')).text, '1\n');
  t.equal((await post({ session_id: 'ro' }, 'SELECT 1')).text, '1\n');
  t.equal(await one(`SELECT count() FROM ${name}`), '0');
});

t.test('an INSERT without rows is no error', async (t) => {
  const name = await table();
  t.match(await post({ query: `INSERT INTO ${name} FORMAT JSONEachRow` }), { status: 200, text: '' });
  t.match(await post({ query: `INSERT INTO ${name} FORMAT JSONEachRow` }, '\n'), { status: 200, text: '' });
});

t.test('binary data goes through byte by byte', async (t) => {
  const name = await table();
  const row = Buffer.from([1, 0, 0, 0, 4, 0xff, 0x00, 0xfe, 0x0a]);
  t.equal((await post({ query: `INSERT INTO ${name} FORMAT RowBinary` }, row)).status, 200);
  t.equal(await one(`SELECT hex(s) FROM ${name}`), 'FF00FE0A');
  const back = await fetch(`${server.url}/?query=SELECT+id,s+FROM+${name}+FORMAT+RowBinary`);
  t.strictSame(Buffer.from(await back.arrayBuffer()), row);
});

t.test(
  'the format is that of the query, else of the header, else of the URL, else TabSeparated',
  async (t) => {
    const format = async (params: Record<string, string>, sql: string, headers = {}) => {
      const { headers: told } = await post(params, sql, headers);
      return [told.get('x-clickhouse-format'), told.get('content-type')];
    };
    t.strictSame(await format({}, 'SELECT 1'), ['TabSeparated', 'text/tab-separated-values; charset=UTF-8']);
    t.strictSame(await format({ default_format: 'JSON' }, 'SELECT 1'), [
      'JSON',
      'application/json; charset=UTF-8',
    ]);
    t.strictSame(await format({ default_format: 'JSON' }, 'SELECT 1', { 'X-ClickHouse-Format': 'CSV' }), [
      'CSV',
      'text/csv; charset=UTF-8; header=absent',
    ]);
    t.strictSame(
      await format({ default_format: 'JSON' }, 'SELECT 1 FORMAT JSONEachRow SETTINGS max_threads=1;'),
      ['JSONEachRow', 'application/x-ndjson; charset=UTF-8'],
    );
    t.equal(
      (await post({ default_format: 'CSVWithNames' }, "SHOW DATABASES LIKE 'system'")).text,
      '"name"\n"system"\n',
    );
  },
);

t.test('a document that is larger than a block is one document', async (t) => {
  const sql = 'SELECT number FROM numbers(200000) FORMAT';
  const json = JSON.parse((await post({}, `${sql} JSON`)).text) as { rows: number };
  t.equal(json.rows, 200_000);
  t.equal((await post({}, `${sql} CSVWithNames`)).text.split('"number"').length, 2);
  const lines = (await post({}, `${sql} JSONEachRow`)).text.trimEnd().split('\n');
  t.equal(lines.length, 200_000);
  t.equal(lines.at(-1), '{"number":199999}');
  const array = await post({ output_format_json_array_of_rows: '1' }, `${sql} JSONEachRow`);
  t.equal((JSON.parse(array.text) as unknown[]).length, 200_000);
  t.match(
    (await post({}, 'SELECT number % 2 AS k, count() FROM numbers(10) GROUP BY k WITH TOTALS ORDER BY k'))
      .text,
    /\n\n0\t10\n$/,
  );
});

t.test('a large result streams: its beginning is there long before its end', async (t) => {
  const answer = await fetch(server.url, {
    method: 'POST',
    body: 'SELECT sleepEachRow(0.02) FROM numbers(60) SETTINGS max_block_size = 1 FORMAT TSV',
  });
  const before = performance.now();
  const chunks: number[] = [];
  for await (const _ of answer.body ?? []) chunks.push(performance.now() - before);
  t.ok((chunks.at(-1) ?? 0) - (chunks[0] ?? 0) > 500, 'the last chunk came well after the first');
});

t.test('a client that goes away in the middle of a result leaves the server as it was', async (t) => {
  for (let i = 0; i < 12; i++) {
    const abort = new AbortController();
    const answer = await fetch(server.url, {
      method: 'POST',
      body: 'SELECT number FROM numbers(1000000000) FORMAT TSV',
      signal: abort.signal,
    });
    await answer.body?.getReader().read();
    abort.abort();
  }
  t.equal(await one('SELECT 1'), '1', 'more than the places for reads were left');
});

t.test('gzip both ways: bodies that say so are unpacked, answers are packed where asked for', async (t) => {
  const name = await table();
  const sent = await post(
    { query: `INSERT INTO ${name} FORMAT JSONEachRow` },
    gzipSync('{"id":1,"s":"zipped"}\n'),
    { 'Content-Encoding': 'gzip' },
  );
  t.equal(sent.status, 200);
  const sql = `SELECT s FROM ${name}`;
  const packed = await post({ enable_http_compression: '1' }, sql, { 'Accept-Encoding': 'gzip' });
  t.equal(packed.headers.get('content-encoding'), 'gzip');
  t.equal(packed.text, 'zipped\n');
  const plain = await post({}, sql, { 'Accept-Encoding': 'gzip' });
  t.equal(plain.headers.get('content-encoding'), null);

  const zipping = connect({ compression: { request: true, response: true } });
  await zipping.insert({ table: name, values: [{ id: 2, s: 'by client' }], format: 'JSONEachRow' });
  t.strictSame(await rows(`SELECT s FROM ${name} ORDER BY id`, zipping), [
    { s: 'zipped' },
    { s: 'by client' },
  ]);
  await zipping.close();

  t.match(await post({}, 'SELECT 1', { 'Content-Encoding': 'lzma' }), {
    status: 500,
    text: /\(UNKNOWN_COMPRESSION_METHOD\)/,
  });
  t.equal((await post({}, 'not gzip', { 'Content-Encoding': 'gzip' })).status, 500);
});

t.test('the database is that of the header or the URL, else default', async (t) => {
  await client.command({ query: "CREATE DATABASE `o'd``d`" });
  const sql = 'SELECT currentDatabase() FORMAT TSVRaw';
  t.equal(await one(sql), 'default');
  t.equal((await post({ database: "o'd`d" }, sql)).text, "o'd`d\n");
  t.equal((await post({ database: 'default' }, sql, { 'X-ClickHouse-Database': 'system' })).text, 'system\n');
  t.match(await post({ database: 'nowhere' }, sql), {
    status: 404,
    text: /^Code: 81\..*\(UNKNOWN_DATABASE\)/,
  });
  const other = connect({ database: 'system' });
  t.strictSame(await rows('SELECT count() AS n FROM one', other), [{ n: 1 }]);
  await other.close();
});

t.test('errors have the status, the header and the body of a server', async (t) => {
  const cases: [sql: string, status: number, code: number, type: string][] = [
    ['SELECT nope', 404, 47, 'UNKNOWN_IDENTIFIER'],
    ['SELECT * FROM nowhere', 404, 60, 'UNKNOWN_TABLE'],
    ['SELECT nope()', 404, 46, 'UNKNOWN_FUNCTION'],
    ['SELECT 1 FORMAT Nope', 404, 73, 'UNKNOWN_FORMAT'],
    ['SELEC 1', 400, 62, 'SYNTAX_ERROR'],
    ['1 + 1', 400, 62, 'SYNTAX_ERROR'],
    ['SELECT 1; SELECT 2', 400, 62, 'SYNTAX_ERROR'],
    ['SHOW TABLES; SHOW TABLES', 400, 62, 'SYNTAX_ERROR'],
    ["SELECT toDate('x')", 400, 38, 'CANNOT_PARSE_DATE'],
    ['SELECT {x:UInt8}', 500, 456, 'UNKNOWN_QUERY_PARAMETER'],
    ['SELECT throwIf(1)', 500, 395, 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'],
    ['SELECT sleep(3) SETTINGS max_execution_time = 0.1', 408, 159, 'TIMEOUT_EXCEEDED'],
    ["SELECT 1 INTO OUTFILE '/tmp/never'", 500, 358, 'INTO_OUTFILE_NOT_ALLOWED'],
    ["INSERT INTO t SELECT * FROM input('x UInt8') FORMAT TSV\n1", 501, 48, 'NOT_IMPLEMENTED'],
  ];
  for (const [sql, status, code, type] of cases) {
    const answer = await post({}, sql);
    t.equal(answer.status, status, sql);
    t.equal(answer.headers.get('x-clickhouse-exception-code'), String(code), sql);
    t.match(
      answer.text,
      new RegExp(`^Code: ${code}\\. DB::Exception: .*\\(${type}\\) \\(version 26\\.`, 's'),
      sql,
    );
  }
});

t.test('every answer carries the headers that clients read', async (t) => {
  const { headers } = await post({ query_id: 'my-id' }, 'SELECT 1 FORMAT JSON');
  t.equal(headers.get('x-clickhouse-query-id'), 'my-id');
  t.ok(headers.get('x-clickhouse-timezone'));
  t.ok(headers.get('x-clickhouse-server-display-name'));
  t.match(JSON.parse(headers.get('x-clickhouse-summary') ?? ''), { result_rows: '1', written_rows: '0' });
  const given = await post({}, 'SELECT 1', { 'X-ClickHouse-Query-Id': 'by-header' });
  t.equal(given.headers.get('x-clickhouse-query-id'), 'by-header');
  t.match((await post({}, 'SELECT 1')).headers.get('x-clickhouse-query-id'), /^[0-9a-f-]{36}$/);
});

t.test(
  'the user is default, without a password, by whichever way it is given; others are refused',
  async (t) => {
    const basic = (pair: string) => ({ Authorization: `Basic ${Buffer.from(pair).toString('base64')}` });
    for (const [params, headers] of [
      [{ user: 'default' }, {}],
      [{}, { 'X-ClickHouse-User': 'default', 'X-ClickHouse-Key': '' }],
      [{}, basic('default:')],
    ] as const) {
      t.equal((await post(params, 'SELECT 1', headers)).status, 200);
    }
    for (const [params, headers] of [
      [{ user: 'admin' }, {}],
      [{ user: 'default', password: 'x' }, {}],
      [{}, { 'X-ClickHouse-User': 'admin' }],
      [{}, { 'X-ClickHouse-Key': 'x' }],
      [{}, basic('default:x')],
      [{}, basic('admin:')],
    ] as const) {
      t.match(await post(params, 'SELECT 1', headers), {
        status: 403,
        text: /^Code: 516\..*\(AUTHENTICATION_FAILED\)/,
      });
    }
  },
);

t.test('a page of another origin has no access, whatever name it finds us by', async (t) => {
  const { status } = await post({}, 'SELECT 1', { Origin: 'https://shop.example' });
  t.equal(status, 403);
  const { request } = await import('node:http');
  const byName = await new Promise((done) =>
    request(`${server.url}/?query=SELECT+1`, { headers: { Host: 'rebound.example:8123' } }, (res) => {
      res.resume();
      done(res.statusCode);
    }).end(),
  );
  t.equal(byName, 403);
  t.equal((await post({}, 'SELECT 1', { Origin: server.url })).status, 200);
});

t.test(
  'a session keeps what SET, USE and temporary tables made; its requests keep their own settings',
  async (t) => {
    const session = { session_id: 's1' };
    await post(session, 'SET max_block_size = 81');
    await post(session, 'CREATE TEMPORARY TABLE mine (a UInt8)');
    await post(session, 'INSERT INTO mine VALUES (7)');
    await post(session, 'USE system');
    t.equal((await post(session, 'SELECT a, currentDatabase() FROM mine')).text, '7\tsystem\n');
    const read = "SELECT getSetting('max_block_size'), currentDatabase()";
    t.equal(
      (await post({ ...session, max_block_size: '82', database: 'default' }, read)).text,
      '82\tdefault\n',
    );
    t.equal((await post(session, read)).text, '81\tsystem\n');
    t.equal((await post({}, 'SELECT * FROM mine')).status, 404);
    await post({ ...session, close_session: '1' }, 'SELECT 1');
    t.match(await post({ ...session, session_check: '1' }, 'SELECT 1'), {
      text: /^Code: 372\..*\(SESSION_NOT_FOUND\)/,
    });
  },
);

t.test('a session is for one request at a time, ends after its time, and has its limits', async (t) => {
  const session = { session_id: 's2', session_timeout: '0' };
  const long = post(session, 'SELECT sleep(1)');
  await new Promise((r) => setTimeout(r, 300));
  t.match(await post(session, 'SELECT 1'), { text: /^Code: 373\..*\(SESSION_IS_LOCKED\)/ });
  t.equal((await long).status, 200);
  await new Promise((r) => setTimeout(r, 100));
  t.match(await post({ ...session, session_check: '1' }, 'SELECT 1'), { text: /\(SESSION_NOT_FOUND\)/ });
  t.match(await post({ session_id: 's3', session_timeout: '3601' }, 'SELECT 1'), {
    text: /\(INVALID_SESSION_TIMEOUT\)/,
  });
  t.match(await http({ session_id: 's3', query: 'SELECT 1' }), { status: 501, text: /needs POST/ });
});

t.test('what is not supported is refused in words, never half done', async (t) => {
  t.match(await post({ compress: '1' }, 'SELECT 1'), { status: 501, text: /\(NOT_IMPLEMENTED\)/ });
  t.match(await post({ role: 'r' }, 'SELECT 1'), { status: 501 });
  const form = new FormData();
  form.set('query', 'SELECT 1');
  t.match(await http({}, { method: 'POST', body: form }), { status: 501, text: /form/ });
});

t.test('a body of 64 MiB is taken, one byte more is refused', async (t) => {
  const name = await table('id UInt8, s String');
  const limit = 64 * 1024 * 1024;
  const row = (bytes: number) =>
    Buffer.concat([Buffer.from('1\t'), Buffer.alloc(bytes - 3, 'x'), Buffer.from('\n')]);
  const query = `INSERT INTO ${name} FORMAT TSV`;
  t.equal((await post({ query }, row(limit))).status, 200);
  t.match(await post({ query }, row(limit + 1)), { status: 413, text: /^Code: 229\..*67108864 bytes/ });
  t.match(await post({ query }, gzipSync(row(limit + 1)), { 'Content-Encoding': 'gzip' }), { status: 413 });
  t.equal(await one(`SELECT count() FROM ${name}`), '1');
});

t.test(
  'the same insert token does not insert twice, and an insert is one block where it asks for it',
  async (t) => {
    const name = await table('id UInt32, s String', 'SETTINGS non_replicated_deduplication_window = 10');
    const lines = Buffer.from(
      Array.from({ length: 40_000 }, (_, i) => `{"id":${i},"s":"${'x'.repeat(220)}"}\n`).join(''),
    );
    const insert = (settings: Record<string, string>) =>
      post(
        { query: `INSERT INTO ${name} FORMAT JSONEachRow`, input_format_parallel_parsing: '0', ...settings },
        lines,
      );
    // What an insert wrote, merged or not.
    const blocks = () => one(`SELECT count() FROM system.parts WHERE table = '${name}' AND level = 0`);
    for (const token of ['a', 'a', 'b', 'a']) {
      const { status } = await insert({
        insert_deduplication_token: token,
        max_insert_block_size: '1000000',
      });
      t.equal(status, 200);
    }
    t.equal(await one(`SELECT count() FROM ${name}`), '80000');
    t.equal(await blocks(), '2');
    const small = {
      max_insert_block_size: '10000',
      min_insert_block_size_rows: '10000',
      min_insert_block_size_bytes: '0',
    };
    await insert({ insert_deduplication_token: 'c', ...small });
    t.equal(await blocks(), '6');
  },
);

t.test('there are no system logs that would grow', async (t) => {
  t.equal(await one("SHOW TABLES FROM system LIKE '%\\_log'"), '');
});

t.test('inserts do not queue behind long SELECTs', async (t) => {
  const name = await table();
  const selects = Array.from({ length: 10 }, () => post({}, 'SELECT sleep(2) SETTINGS max_threads = 1'));
  await new Promise((r) => setTimeout(r, 200));
  const before = performance.now();
  t.equal((await post({ query: `INSERT INTO ${name} FORMAT TSV` }, '1\tx\n')).status, 200);
  t.ok(performance.now() - before < 1_500);
  for (const { status } of await Promise.all(selects)) t.equal(status, 200);
});

t.test('a query whose planning takes long keeps nobody else waiting', async (t) => {
  await client.command({
    query: 'CREATE TABLE keyed (k UInt64) ENGINE = MergeTree ORDER BY k AS SELECT number FROM numbers(10000)',
  });
  for (const sql of [
    'SELECT (SELECT sum(sleepEachRow(0.1)) FROM numbers(10))',
    'SELECT count() FROM keyed WHERE k IN (SELECT sleepEachRow(0.1) FROM numbers(10))',
  ]) {
    let running = true;
    const query = post({}, sql).finally(() => {
      running = false;
    });
    let worst = 0;
    while (running) {
      const before = performance.now();
      await fetch(`${server.url}/ping`).then((answer) => answer.text());
      worst = Math.max(worst, performance.now() - before);
      await new Promise((r) => setTimeout(r, 10));
    }
    t.equal((await query).status, 200);
    t.ok(worst < 700, `${worst} ms`);
  }
});

t.test('the small paths: /ping, /replicas_status, /, and anything else', async (t) => {
  for (const path of ['/ping', '/replicas_status', '/']) {
    const answer = await fetch(server.url + path);
    t.equal(answer.status, 200);
    t.equal(await answer.text(), 'Ok.\n');
  }
  const nowhere = await fetch(`${server.url}/nowhere`);
  t.equal(nowhere.status, 404);
  t.match(await nowhere.text(), /^There is no handle \/nowhere/);
  t.equal((await fetch(server.url, { method: 'PUT', body: 'SELECT 1' })).status, 405);
});

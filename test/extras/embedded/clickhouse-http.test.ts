// What curl, dashboards and @clickhouse/client expect of ClickHouse's HTTP interface, also with large bodies and many at once.

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { forFetch } from '../../harness/clickhouse.js';
import { openClickHouse } from './fixtures.js';

const { server, origin, connect, client, http, post, rows, one, table } = await openClickHouse(t);

t.test('parameters of concurrent ClickHouse requests are not mixed up', async (t) => {
  const ask = async (x: number) => Number((await post({ param_x: String(x) }, 'SELECT {x:UInt32}')).text);
  const numbers = Array.from({ length: 60 }, (_, x) => x);
  t.strictSame(await Promise.all(numbers.map(ask)), numbers);
});

t.test('query parameters reach ClickHouse unchanged', async (t) => {
  const query_params = { s: "tab\tnewline\nquote'back\\slash {x}", a: ['x', "y'\t"], i: 'system' };
  const query = 'SELECT {s:String} AS s, {a:Array(String)} AS a, count() > 0 AS i FROM {i:Identifier}.one';
  const result = await client.query({ query, query_params, format: 'JSONEachRow' });
  t.strictSame(await result.json(), [{ ...query_params, i: 1 }]);
});

t.test('a setting in the URL applies to its query only', async (t) => {
  const read = "SELECT getSetting('max_block_size'), getSetting('extremes') FORMAT TSV";
  const before = await one(read);
  t.match((await post({ max_block_size: '77', extremes: '1' }, read)).text, /^77\t/);
  t.match((await post({}, `${read} SETTINGS max_block_size = 78`)).text, /^78\t/);
  await post({}, 'SET max_block_size = 79');
  await post({ max_block_size: '80' }, 'SELECT nope');
  t.equal(await one(read), before);
  for (const name of ['max_blok_size', 'x; DROP TABLE y'])
    t.match(await post({ [name]: '1' }, 'SELECT 1'), { status: 500, text: /^Code: 115\..*UNKNOWN_SETTING/ });
  const log_comment = "'; SELECT 1; --\\";
  const quoted = await post({ log_comment }, "SELECT getSetting('log_comment') FORMAT TSVRaw");
  t.equal(quoted.text, `${log_comment}\n`);
});

t.test('a query may be in the URL, in the body, or begin in one and continue in the other', async (t) => {
  t.equal((await http({ query: 'SELECT 1' })).text, '1\n');
  t.equal((await post({}, 'SELECT 2')).text, '2\n');
  t.equal((await post({ query: 'SELECT 3 +' }, '4')).text, '7\n');
  const name = await table();
  await post({ query: `INSERT INTO ${name} FORMAT JSONEachRow` }, '{"id":1,"s":"a"}\n{"id":2,"s":"b"}');
  await post({}, `/* all of it */ INSERT INTO ${name} FORMAT TSV\n3\tc\n4\td\n`);
  await post({}, `INSERT INTO ${name} (id, s) VALUES (5, 'e'), (6, 'f; g')`);
  await post({}, `INSERT INTO ${name} SELECT number + 7, 'h' FROM numbers(2)`);
  const all = await one(`SELECT groupArray(s) FROM (SELECT s FROM ${name} ORDER BY id)`);
  t.equal(all, "['a','b','c','d','e','f; g','h','h']");
});

t.test('an INSERT may spell its table and columns in any way', async (t) => {
  const name = await table('id UInt32, s String, `a (b), c` UInt8, format UInt8, values UInt8');
  for (const [sql, body] of [
    [`insert into table ${name}(id,s)values(1,'it''s; x'),(2,'\\n\\nSELECT 1');`, ''],
    [`-- a comment (FORMAT CSV)\n INSERT INTO \`${name}\` (\`id\`, s)\nFORMAT TSV`, '3\tc\n'],
    [`INSERT INTO default.\`${name}\` (* EXCEPT(format, values, \`a (b), c\`)) FORMAT CSV`, '4,d\n'],
    [`INSERT INTO ${name} (id, format, values) FORMAT jsoneachrow`, '{"id":5,"format":1,"values":1}'],
    [`INSERT INTO ${name} (id) SELECT values + 5 FROM ${name} WHERE format = 1`, ''],
  ] as const)
    t.match(await post({ query: sql }, body), { status: 200, text: '' }, sql);
  const all = await one(`SELECT groupArray((id, s)) FROM (SELECT id, s FROM ${name} ORDER BY id)`);
  t.equal(all, `[(1,'it\\'s; x'),(2,'\\n\\nSELECT 1'),(3,'c'),(4,'d'),(5,''),(6,'')]`);
  for (const sql of [
    `INSERT INTO ${name} (id) SETTINGS max_threads = 1 VALUES (9)`,
    `INSERT INTO ${name} (id) SELECT 9 FORMAT TSV`,
    `INSERT INTO FUNCTION null('id UInt32') VALUES (9)`,
    `INSERT INTO ${name} /* (' */ (id) VALUES (9) /* ') FORMAT TSV */`,
    `INSERT INTO ${name} (id) VALUES (9); SELECT 1`,
  ])
    t.ok((await post({}, sql)).status >= 400, sql);
  t.equal(await one(`SELECT count() FROM ${name} WHERE id = 9`), '0', 'refused, and not half done');
});

t.test('an INSERT accepts no rows, and binary rows byte for byte', async (t) => {
  const name = await table();
  for (const body of ['', '\n'])
    t.match(await post({ query: `INSERT INTO ${name} FORMAT JSONEachRow` }, body), { status: 200, text: '' });
  const row = Buffer.from([1, 0, 0, 0, 4, 0xff, 0x00, 0xfe, 0x0a]);
  t.equal((await post({ query: `INSERT INTO ${name} FORMAT RowBinary` }, row)).status, 200);
  t.equal(await one(`SELECT hex(s) FROM ${name}`), 'FF00FE0A');
  const { headers } = forFetch(server.url);
  const back = await fetch(`${origin}/?query=SELECT+id,s+FROM+${name}+FORMAT+RowBinary`, { headers });
  t.strictSame(Buffer.from(await back.arrayBuffer()), row);
});

t.test('the output format comes from the query, the header, the URL, or is TabSeparated', async (t) => {
  const json = { default_format: 'JSON' };
  const csv = { 'X-ClickHouse-Format': 'CSV' };
  const cases: [Record<string, string>, string, Record<string, string>, format: string, type: string][] = [
    [{}, 'SELECT 1', {}, 'TabSeparated', 'text/tab-separated-values; charset=UTF-8'],
    [json, 'SELECT 1', {}, 'JSON', 'application/json; charset=UTF-8'],
    [json, 'SELECT 1', csv, 'CSV', 'text/csv; charset=UTF-8; header=absent'],
    [json, 'SELECT 1 FORMAT XML SETTINGS max_threads=1;', csv, 'XML', 'application/xml; charset=UTF-8'],
  ];
  for (const [params, sql, sent, format, type] of cases) {
    const { headers } = await post(params, sql, sent);
    t.same([headers.get('x-clickhouse-format'), headers.get('content-type')], [format, type]);
  }
  t.match(await post({}, 'SELECT 1 FORMAT Null'), { status: 200, text: '' }, 'its name is a keyword as well');
  const named =
    "SELECT 'a FORMAT TSV' AS `b FORMAT CSV SETTINGS c` SETTINGS max_threads = 1 FORMAT TSVWithNames";
  t.equal((await post({}, named)).text, 'b FORMAT CSV SETTINGS c\na FORMAT TSV\n');
  const show = await post({ default_format: 'CSVWithNames' }, "SHOW DATABASES LIKE 'system'");
  t.equal(show.text, '"name"\n"system"\n');
});

t.test('gzipped bodies are unpacked, and answers are gzipped if the client asks for it', async (t) => {
  const name = await table();
  const query = `INSERT INTO ${name} FORMAT JSONEachRow`;
  const row = gzipSync('{"id":1,"s":"zipped"}\n');
  t.equal((await post({ query }, row, { 'Content-Encoding': 'gzip' })).status, 200);
  const sql = `SELECT s FROM ${name}`;
  const packed = await post({ enable_http_compression: '1' }, sql, { 'Accept-Encoding': 'gzip' });
  t.equal(packed.headers.get('content-encoding'), 'gzip');
  t.equal(packed.text, 'zipped\n');
  const plain = await post({}, sql, { 'Accept-Encoding': 'gzip' });
  t.equal(plain.headers.get('content-encoding'), null);

  const zipping = connect({ compression: { request: true, response: true } });
  await zipping.insert({ table: name, values: [{ id: 2, s: 'by client' }], format: 'JSONEachRow' });
  const all = await rows<{ s: string }>(`SELECT s FROM ${name} ORDER BY id`, zipping);
  t.equal(all.map(({ s }) => s).join(), 'zipped,by client');
  await zipping.close();

  const unknown = await post({}, 'SELECT 1', { 'Content-Encoding': 'lzma' });
  t.match(unknown, { status: 500, text: /\(UNKNOWN_COMPRESSION_METHOD\)/ });
  t.equal((await post({}, 'not gzip', { 'Content-Encoding': 'gzip' })).status, 500);
});

t.test('the database comes from the header, the URL, or is default', async (t) => {
  await client.command({ query: "CREATE DATABASE `o'd``d`" });
  const sql = 'SELECT currentDatabase() FORMAT TSVRaw';
  t.equal(await one(sql), 'default');
  t.equal((await post({ database: "o'd`d" }, sql)).text, "o'd`d\n");
  t.equal((await post({ database: 'default' }, sql, { 'X-ClickHouse-Database': 'system' })).text, 'system\n');
  t.match(await post({ database: 'nowhere' }, sql), { status: 500, text: /\(UNKNOWN_DATABASE\)/ });
  const other = connect({ database: 'system' });
  t.strictSame(await rows('SELECT count() AS n FROM one', other), [{ n: 1 }]);
  await other.close();
});

t.test('errors have the status, the header and the body of a ClickHouse server', async (t) => {
  const cases: [sql: string, status: number, code: number, type: string][] = [
    ['SELECT nope', 500, 47, 'UNKNOWN_IDENTIFIER'],
    ['SELECT * FROM nowhere', 500, 60, 'UNKNOWN_TABLE'],
    ['SELECT 1 FORMAT Nope', 500, 73, 'UNKNOWN_FORMAT'],
    ['SELEC 1', 400, 62, 'SYNTAX_ERROR'],
    ['SELECT 1; SELECT 2', 400, 62, 'SYNTAX_ERROR'],
    ["SELECT toDate('x')", 500, 38, 'CANNOT_PARSE_DATE'],
    ['SELECT {x:UInt8}', 500, 456, 'UNKNOWN_QUERY_PARAMETER'],
    ['SELECT sleep(3) SETTINGS max_execution_time = 0.1', 408, 159, 'TIMEOUT_EXCEEDED'],
    ["SELECT 1 INTO OUTFILE '/tmp/never'", 500, 358, 'INTO_OUTFILE_NOT_ALLOWED'],
    ["INSERT INTO t SELECT * FROM input('x UInt8') FORMAT TSV\n1", 501, 48, 'NOT_IMPLEMENTED'],
  ];
  for (const [sql, status, code, type] of cases) {
    const { headers, ...answer } = await post({}, sql);
    const text = new RegExp(`^Code: ${code}\\. DB::Exception: .*\\(${type}\\) \\(version 26\\.`, 's');
    t.match(answer, { status, text }, sql);
    t.equal(headers.get('x-clickhouse-exception-code'), String(code), sql);
  }
});

t.test('every ClickHouse answer has the headers that clients read', async (t) => {
  const { headers } = await post({ query_id: 'my-id' }, 'SELECT 1 FORMAT JSON');
  for (const name of ['timezone', 'server-display-name']) t.ok(headers.get(`x-clickhouse-${name}`), name);
  t.match(JSON.parse(headers.get('x-clickhouse-summary') ?? ''), { result_rows: '1', written_rows: '0' });
  const idOf = async (sent = {}) => (await post({}, 'SELECT 1', sent)).headers.get('x-clickhouse-query-id');
  t.equal(headers.get('x-clickhouse-query-id'), 'my-id');
  t.equal(await idOf({ 'X-ClickHouse-Query-Id': 'by-header' }), 'by-header');
  t.match(await idOf(), /^[0-9a-f-]{36}$/);
});

t.test('an unsupported request is refused with a reason, never half done', async (t) => {
  t.match(await post({ decompress: '1' }, 'SELECT 1'), { status: 501, text: /\(NOT_IMPLEMENTED\)/ });
  t.match(await post({ compress: '1' }, 'SELECT 1'), { status: 501, text: /compress=1/ });
  const later = { client_protocol_version: '54460', default_format: 'Native' };
  t.match(await post(later, 'SELECT 1'), { status: 501, text: /client_protocol_version/ });
  t.match(await post({ role: 'r' }, 'SELECT 1'), { status: 501 });
  const form = new FormData();
  form.set('query', 'SELECT 1');
  t.match(await http({}, { method: 'POST', body: form }), { status: 501, text: /form/ });
});

t.test('ClickHouse answers health checks, and refuses other paths and methods', async (t) => {
  for (const method of ['GET', 'HEAD'])
    for (const path of ['/ping', '/']) {
      const answer = await fetch(origin + path, { method });
      t.equal(answer.status, 200, `${method} ${path}`);
      t.equal(await answer.text(), method === 'GET' ? 'Ok.\n' : '');
    }
  t.equal((await fetch(`${origin}/?query=SELECT+1`, { method: 'HEAD' })).status, 405);
  const nowhere = await fetch(`${origin}/nowhere`);
  t.equal(nowhere.status, 404);
  t.match(await nowhere.text(), /^There is no handle \/nowhere/);
  t.equal((await fetch(origin, { method: 'PUT', body: 'SELECT 1' })).status, 405);
});

t.test('an error after a few rows still sets the status', async (t) => {
  const sql = 'SELECT throwIf(number = 500) FROM numbers(1000) FORMAT';
  for (const format of ['TSV', 'JSONEachRow', 'JSON'])
    t.match(await post({ max_block_size: '1' }, `${sql} ${format}`), { status: 500, text: /^Code: 395\./ });
});

t.test('an error after rows were sent ends the stream as that error', async (t) => {
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

t.test('an INSERT of 64 MiB is accepted, and one byte more is refused', async (t) => {
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

t.test('ClickHouse keeps no system logs that would grow', async (t) => {
  t.equal(await one("SHOW TABLES FROM system LIKE '%\\_log'"), '');
});

t.test('a bad line refuses the whole insert, with its code, and without a path of the server', async (t) => {
  const name = await table('id UInt64, text String');
  const query = `INSERT INTO ${name} FORMAT JSONEachRow`;
  // More than one block if chDB cut them on its own.
  const lineOf = (id: number) => `{"id":${id},"text":"schön \\"${id}\\""}\n`;
  const lines = Array.from({ length: 70_000 }, (_, id) => lineOf(id)).join('');
  const answer = await post({ query, input_format_parallel_parsing: '0' }, `${lines}{"id":"x"}\n`);
  t.match(answer, { status: 500, text: /^Code: 27\..*at row 70001.*CANNOT_PARSE_INPUT_ASSERTION_FAILED/s });
  t.notMatch(answer.text, server.dir);
  t.equal(await one(`SELECT count() FROM ${name}`), '0');
  const missing = await post({ query, database: 'nowhere' }, lines);
  t.match(missing, { status: 500, text: /UNKNOWN_DATABASE/ });
  t.strictSame(await readdir(join(server.dir, 'bodies')), []);
});

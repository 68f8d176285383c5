// Statements of either user of the embedded ClickHouse read, write and run nothing outside of it, on this machine or on
// the network, however they are spelled.

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { openShop } from './shop.js';

const CANARY = 'canary-4711';
const outside = await mkdtemp(join(tmpdir(), 'wm-outside-'));
t.teardown(() => rm(outside, { recursive: true, force: true }));
const secret = join(outside, 'secret');
await writeFile(secret, `${CANARY}\n`, { mode: 0o600 });

process.env['SHOPIFY_SECRET'] = CANARY;
process.env['API_KEYS'] = CANARY;
const { server, credentials, users, http, post, get } = await openShop(t);

t.test('no statement of any user reads, writes or runs a file', async (t) => {
  const written = join(outside, 'written');
  const q = (path: string) => `'${path}'`;
  const statements = [
    `SELECT file(${q(secret)})`,
    `SELECT /* */ file /**/ (${q(secret)})`,
    `SELECT \`file\`(${q(secret)})`,
    `SELECT "fil\\x65"(${q(secret)})`,
    `SELECT \`\\x66ile\`(${q(secret)})`,
    `SELECT * APPLY(file) FROM (SELECT ${q(secret)})`,
    `SELECT arrayMap(p -> file(p), [${q(secret)}])`,
    `SELECT * FROM (SELECT file(${q(secret)}) AS x)`,
    `WITH (SELECT file(${q(secret)})) AS x SELECT x`,
    `EXPLAIN SELECT file(${q(secret)})`,
    `DESCRIBE (SELECT file(${q(secret)}))`,
    `SELECT throwIf(file(${q(secret)}) != '', 'it is there')`,
    `SELECT * FROM file(${q(secret)}, 'LineAsString')`,
    `SELECT * FROM file/**/(${q(secret)}, 'LineAsString')`,
    `SELECT * FROM fileCluster('default', ${q(secret)}, 'LineAsString')`,
    `SELECT * FROM ${q(secret)}`,
    `SELECT * FROM \`${secret}\``,
    `SELECT * FROM default.\`${secret}\``,
    `SELECT * FROM {t: Identifier}`,
    `DESCRIBE file(${q(secret)}, 'LineAsString')`,
    `SELECT * FROM view(SELECT * FROM file(${q(secret)}, 'LineAsString'))`,
    `SELECT * FROM loop(file(${q(secret)}, 'LineAsString')) LIMIT 1`,
    `SELECT * FROM format(Values, '(file(${q(`\\'${secret}\\'`).slice(1, -1)}))')`,
    `SELECT * FROM eval('SELECT file(\\'${secret}\\')') SETTINGS allow_experimental_eval_table_function = 1`,
    `SELECT * FROM sqlite(${q(secret)}, 't')`,
    `SELECT * FROM executable('cat', 'LineAsString', 'x String')`,
    `SELECT * FROM executable('../../../bin/cat', 'LineAsString', 'x String')`,
    `SELECT * FROM deltaLakeLocal(${q(outside)})`,
    `SELECT * FROM icebergLocal(${q(outside)})`,
    `SELECT * FROM filesystem(${q(outside)})`,
    `SELECT 1 INTO OUTFILE ${q(written)}`,
    `SELECT 1 INTO/**/OUTFILE ${q(written)}`,
    `SELECT 1 into -- x\n outfile ${q(written)} FORMAT CSV`,
    `SELECT 1 AS x FORMAT Template SETTINGS format_template_row = ${q(secret)}`,
    `SELECT 1 AS x FORMAT Template SETTINGS format_template_resultset = ${q(secret)}`,
    `SELECT 1 AS x FORMAT Protobuf SETTINGS output_format_schema = ${q(written)}`,
    `SELECT 1 SETTINGS additional_result_filter = 'throwIf(file(\\'${secret}\\') != \\'\\')'`,
    `INSERT INTO FUNCTION file(${q(written)}, 'CSV', 'x UInt8') VALUES (1)`,
    `INSERT INTO TABLE FUNCTION file(${q(written)}, 'CSV', 'x UInt8') SELECT 1`,
    `INSERT INTO shop.shown (s) FROM INFILE ${q(secret)} FORMAT LineAsString`,
    `INSERT INTO shop.shown (s) FROM/**/INFILE ${q(secret)} FORMAT LineAsString`,
    `INSERT INTO shop.shown (s) SELECT file(${q(secret)})`,
    `INSERT INTO shop.shown (s) VALUES (file(${q(secret)}))`,
    `INSERT INTO shop.shown (s) SETTINGS input_format_values_interpret_expressions = 1 VALUES (file(${q(secret)}))`,
    `INSERT INTO shop.shown VALUES (9, 'x'); SELECT 1 INTO OUTFILE ${q(written)}`,
    `INSERT INTO shop.shown FORMAT TSV 9\tx\n\nSELECT 1 INTO OUTFILE ${q(written)}; garbage(`,
    `INSERT INTO shop.shown FORMAT JSONEachRow {"a":9}\n\nSELECT 1 INTO OUTFILE ${q(written)}`,
    `INSERT INTO shop.shown FORMAT CSV 9,x\n\n;SELECT 1 INTO OUTFILE ${q(written)};\n`,
    `CREATE TABLE shop.f (x String) ENGINE = File(LineAsString, ${q(secret)})`,
    `CREATE TABLE shop.f AS file(${q(secret)}, 'LineAsString')`,
    `CREATE TABLE shop.f (x String DEFAULT file(${q(secret)})) ENGINE = Memory`,
    `CREATE TABLE shop.f (x UInt8) ENGINE = MergeTree ORDER BY x SETTINGS disk = disk(type = local, path = ${q(`${outside}/d/`)})`,
    `CREATE TABLE shop.f (x String) ENGINE = FileLog(${q(outside)}, 'LineAsString')`,
    `CREATE VIEW shop.f AS SELECT file(${q(secret)})`,
    `CREATE VIEW shop.f AS SELECT * FROM file(${q(secret)}, 'LineAsString')`,
    `CREATE DATABASE f ENGINE = Filesystem(${q(outside)})`,
    `CREATE DATABASE f ENGINE = SQLite(${q(written)})`,
    `CREATE DICTIONARY shop.f (x String) PRIMARY KEY x SOURCE(FILE(path ${q(secret)} format 'LineAsString')) LAYOUT(DIRECT())`,
    `CREATE DICTIONARY shop.f (x String) PRIMARY KEY x SOURCE(EXECUTABLE(command 'cat ${secret}' format 'LineAsString')) LAYOUT(DIRECT())`,
    `CREATE FUNCTION f AS () -> file(${q(secret)})`,
    `ATTACH TABLE shop.f FROM ${q(`${outside}/d/`)} (x UInt8) ENGINE = MergeTree ORDER BY x`,
    `ALTER TABLE shop.shown ADD COLUMN f String DEFAULT file(${q(secret)})`,
    `ALTER TABLE shop.shown UPDATE s = file(${q(secret)}) WHERE 1`,
    `BACKUP TABLE shop.shown TO File(${q(written)})`,
    `RESTORE TABLE shop.shown FROM File(${q(written)})`,
    "SELECT catboostEvaluate('/etc/hostname', 1)",
  ];
  const param_t = secret;
  for (const [user, headers] of Object.entries(users)) {
    for (const sql of statements) {
      for (const ask of [get, post]) {
        const { status, text } = await ask(headers, sql, { param_t });
        t.ok(status >= 400, `${user}, ${sql}: ${status}`);
        t.notMatch(text, CANARY, `${user}, ${sql}`);
      }
      const begun = await http(
        { query: `${sql.slice(0, 12)}`, param_t },
        { method: 'POST', body: sql.slice(12), headers },
      );
      t.ok(begun.status >= 400, `${user}, begun in the URL: ${sql}`);
      t.notMatch(begun.text, CANARY);
    }
    for (const setting of ['format_template_row', 'format_template_resultset']) {
      const answer = await post(headers, 'SELECT 1 AS x FORMAT Template', { [setting]: secret });
      t.ok(answer.status >= 400, setting);
      t.notMatch(answer.text, CANARY);
    }
    const plain = { query: 'INSERT INTO shop.shown FORMAT JSONEachRow' };
    for (const end of ['', '; garbage(']) {
      const body = `{"a":9}\n\nSELECT 1 INTO OUTFILE ${q(written)}${end}`;
      t.ok(
        (await http(plain, { method: 'POST', body, headers })).status >= 400,
        `${user}, behind data${end}`,
      );
    }
  }
  t.same(await readdir(outside), ['secret']);
  t.equal((await post(credentials, `SELECT count() FROM shop.shown WHERE s LIKE '%canary%'`)).text, '0\n');
});

t.test('no statement of any user reaches the network', async (t) => {
  let connections = 0;
  const listener = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  await new Promise<void>((up) => listener.listen(0, '127.0.0.1', up));
  t.teardown(() => listener.close());
  const { port } = listener.address() as AddressInfo;
  const at = `127.0.0.1:${port}`;
  const url = `http://${at}/bucket/key`;
  const statements = [
    `SELECT * FROM url('${url}', CSV, 'x String')`,
    `SELECT * FROM urlCluster('default', '${url}', CSV, 'x String')`,
    `SELECT * FROM s3('${url}', 'a', 'b', CSV, 'x String')`,
    `SELECT * FROM gcs('${url}', 'a', 'b', CSV, 'x String')`,
    `SELECT * FROM deltaLake('${url}', 'a', 'b')`,
    `SELECT * FROM iceberg('${url}', 'a', 'b')`,
    `SELECT * FROM azureBlobStorage('DefaultEndpointsProtocol=http;AccountName=a;AccountKey=Yg==;BlobEndpoint=http://${at}/a', 'c', 'b', CSV, 'auto', 'x String')`,
    `SELECT * FROM hdfs('hdfs://${at}/x', CSV, 'x String')`,
    `SELECT * FROM remote('${at}', shop.shown)`,
    `SELECT * FROM remote('${at}', view(SELECT 1))`,
    `SELECT * FROM remoteSecure('${at}', shop.shown)`,
    `SELECT * FROM cluster('default', shop.shown)`,
    `SELECT * FROM mysql('${at}', 'd', 't', 'u', 'p')`,
    `SELECT * FROM postgresql('${at}', 'd', 't', 'u', 'p')`,
    `SELECT * FROM mongodb('${at}', 'd', 't', 'u', 'p', 'x String')`,
    `SELECT * FROM redis('${at}', 'k', 'k String, v String')`,
    `SELECT * FROM jdbc('jdbc:mysql://${at}', 'd', 't')`,
    `SELECT * FROM odbc('DSN=x', 'd', 't')`,
    `SELECT hasColumnInTable('${at}', 'shop', 'shown', 'a')`,
    `SELECT aiGenerate('x') SETTINGS allow_experimental_ai_functions = 1`,
    `INSERT INTO FUNCTION url('${url}', CSV, 'x String') SELECT s FROM shop.shown`,
    `INSERT INTO FUNCTION remote('${at}', shop.shown) SELECT * FROM shop.shown`,
    `CREATE TABLE shop.n (x String) ENGINE = URL('${url}', CSV)`,
    `CREATE TABLE shop.n (x String) ENGINE = S3('${url}', 'a', 'b', CSV)`,
    `CREATE TABLE shop.n (x String) ENGINE = MySQL('${at}', 'd', 't', 'u', 'p')`,
    `CREATE TABLE shop.n AS remote('${at}', shop.shown)`,
    `CREATE TABLE shop.n (x UInt8) ENGINE = MergeTree ORDER BY x SETTINGS disk = disk(type = web, endpoint = '${url}/')`,
    `CREATE TABLE shop.n (x String) ENGINE = Kafka('${at}', 't', 'g', 'CSV')`,
    `CREATE DATABASE n ENGINE = MySQL('${at}', 'd', 'u', 'p')`,
    `CREATE DATABASE n ENGINE = PostgreSQL('${at}', 'd', 'u', 'p')`,
    `CREATE DICTIONARY shop.n (x String) PRIMARY KEY x SOURCE(HTTP(url '${url}' format 'CSV')) LAYOUT(DIRECT())`,
    `BACKUP TABLE shop.shown TO S3('${url}', 'a', 'b')`,
    `RESTORE TABLE shop.shown FROM S3('${url}', 'a', 'b')`,
  ];
  for (const [user, headers] of Object.entries(users)) {
    for (const sql of statements) {
      const { status, text } = await post(headers, sql);
      t.ok(status >= 400, `${user}, ${sql}: ${status} ${text}`);
    }
  }
  t.equal(connections, 0);
});

t.test(
  'its process has nothing in its environment that is worth reading',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const environment = await readFile(`/proc/${server.pid}/environ`, 'utf8');
    t.match(environment, 'UV_THREADPOOL_SIZE=');
    t.notMatch(environment, CANARY);
    const names = environment.split('\0').map((line) => line.split('=')[0]);
    t.notOk(
      names.some((name) => /KEY|SECRET|TOKEN|PASSWORD|URL|HOME/.test(name ?? '')),
      names.join(' '),
    );
  },
);

t.test(
  'every function that this build has was looked at: one that a new build adds has to be, too',
  async (t) => {
    const count = async (what: string) =>
      Number((await post(credentials, `SELECT count() FROM system.${what}`)).text);
    // See FUNCTIONS_OFF and TABLE_FUNCTIONS_ON in clickhouse-statement.ts, FIXED_SETTINGS in clickhouse-access.ts.
    const { text: version } = await post(credentials, 'SELECT version()');
    t.equal(
      version.trim(),
      '26.7.2.1',
      'look for functions and settings that reach out, then change this line',
    );
    t.ok((await count('functions')) > 1_000);
  },
);

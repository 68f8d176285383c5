// Large bodies and results, long queries, and many of both at once: the embedded ClickHouse keeps what it promises
// of inserts, and no request waits for another caller's SELECT.

import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { BodyFiles } from '../../src/embedded/clickhouse-body-files.js';
import { until } from '../harness/until.js';
import { openClickHouse } from './fixtures.js';

const { server, origin, credentials, client, post, one, table } = await openClickHouse(t);

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

t.test('a large result streams, and a client that leaves in the middle of it keeps no place', async (t) => {
  // More than there are places for reads.
  for (let i = 0; i < 8; i++) {
    const { left, answer } = send('SELECT number FROM numbers(1000000000) FORMAT TSV');
    const first = await answer.then(({ body }) => body?.getReader().read());
    t.equal(first?.done, false);
    await left();
  }
  t.equal(await one('SELECT 1'), '1');
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

t.test('there are no system logs that would grow', async (t) => {
  t.equal(await one("SHOW TABLES FROM system LIKE '%\\_log'"), '');
});

t.test('inserts do not queue behind SELECTs that do not end', async (t) => {
  const name = await table();
  const sql =
    'SELECT count(sleepEachRow(1)) FROM numbers(100000) SETTINGS max_threads = 1, max_block_size = 1';
  const selects = [await endless(sql), await endless(sql), await endless(sql)];
  // More than there are places for, which nothing can look at then; they have a moment to take the last one.
  for (let i = 0; i < 7; i++) selects.push(send(sql));
  await sleep(200);
  t.equal((await post({ query: `INSERT INTO ${name} FORMAT TSV` }, '1\tx\n')).status, 200);
  for (const { hasEnded } of selects) t.notOk(hasEnded(), 'it is still at work');
  await Promise.all(selects.map(({ left }) => left()));
  await until('none of them runs', async () => (await running()) === 0);
});

t.test('a query whose planning does not end keeps no other request waiting', async (t) => {
  await client.command({
    query: 'CREATE TABLE keyed (k UInt64) ENGINE = MergeTree ORDER BY k AS SELECT number FROM numbers(10000)',
  });
  for (const sql of [
    'SELECT (SELECT count() FROM numbers(10000000000000)) SETTINGS max_threads = 1',
    'SELECT count() FROM keyed WHERE k IN (SELECT max(number) FROM numbers(10000000000000)) SETTINGS max_threads = 1',
  ]) {
    const { hasEnded, left } = await endless(sql);
    for (let i = 0; i < 20; i++) t.equal((await fetch(`${origin}/ping`)).status, 200);
    t.notOk(hasEnded(), 'its planning goes on');
    await left();
    await until('it runs no longer', async () => (await running()) === 0);
  }
});

/** Large inserts reach chDB as files: nothing tells them from small ones but the time that they take. */
const ROWS = 70_000; // more than one block as chDB cuts them on its own
const LINES = linesOf(ROWS, (id) => `{"id":${id},"text":"schön \\"${id}\\"","unknown":[{}]}`);
const TOTALS =
  "SELECT count(), sum(id), sum(left_out), countIf(text = concat('schön \"', toString(id), '\"'))";
const ALL = [ROWS, (ROWS * (ROWS - 1)) / 2, ROWS * 7, ROWS].join('\t');

function linesOf(rows: number, line: (id: number) => string): string {
  return Array.from({ length: rows }, (_, id) => `${line(id)}\n`).join('');
}

/** A new table, and inserts into it as `flush` sends them. */
async function insertTable() {
  const name = await table(
    'id UInt64, text String, left_out UInt8 DEFAULT 7',
    'SETTINGS non_replicated_deduplication_window = 100',
  );
  const insert = (body: string, settings: Record<string, string> = {}) =>
    post(
      {
        query: `INSERT INTO ${name} FORMAT JSONEachRow`,
        input_format_skip_unknown_fields: '1',
        input_format_parallel_parsing: '0',
        ...settings,
      },
      body,
    );
  return { name, insert };
}

t.test('a large insert is one block, or those it asks for, and the same token again adds none', async (t) => {
  const { name, insert } = await insertTable();
  // What inserts wrote, merged or not.
  const blocks = () => one(`SELECT count() FROM system.parts WHERE table = '${name}' AND level = 0`);
  const token = { insert_deduplication_token: 'once' };
  const answer = await insert(LINES, token);
  t.equal(answer.status, 200, answer.text);
  t.match(JSON.parse(answer.headers.get('x-clickhouse-summary') ?? ''), { written_rows: String(ROWS) });
  t.equal(await one(`${TOTALS} FROM ${name}`), ALL);
  t.equal(await blocks(), '1');
  for (const again of [token, token, { insert_deduplication_token: 'other' }, token])
    t.equal((await insert(LINES, again)).status, 200);
  t.equal(await one(`SELECT count() FROM ${name}`), String(2 * ROWS));
  t.equal(await blocks(), '2');
  const small = { max_insert_block_size: '10000', min_insert_block_size_rows: '10000' };
  await insert(LINES, { ...small, min_insert_block_size_bytes: '0' });
  t.equal(await blocks(), '9');
  t.strictSame(await readdir(join(server.dir, 'bodies')), []);
});

t.test('a bad line refuses all of them, with its code, and without a path of ours', async (t) => {
  const { name, insert } = await insertTable();
  const answer = await insert(`${LINES}{"id":"x"}\n`);
  t.match(answer, { status: 400, text: /^Code: 27\..*at row 70001.*CANNOT_PARSE_INPUT_ASSERTION_FAILED/s });
  t.notMatch(answer.text, server.dir);
  t.equal(await one(`SELECT count() FROM ${name}`), '0');
  const missing = await insert(LINES, { database: 'nowhere' });
  t.match(missing, { status: 404, text: /UNKNOWN_DATABASE/ }, 'as a small one is');
  t.strictSame(await readdir(join(server.dir, 'bodies')), []);
});

t.test('no file where chDB would misread it or does not find it; one that was left goes', async (t) => {
  const none = async (): Promise<{ rowsRead: number }> => {
    throw new Error('nothing is to run');
  };
  const data = [Buffer.from(LINES)];
  const plain = 'INSERT INTO t FORMAT JSONEachRow';
  const odd = new BodyFiles(join(server.dir, '{a,b}*'));
  t.equal(await odd.insert(plain, data, '1000', none), undefined, 'its path is a pattern');
  const dir = join(server.dir, 'left');
  await mkdir(join(dir, 'bodies'), { recursive: true });
  await writeFile(join(dir, 'bodies', '1.jsonl'), LINES);
  const bodies = new BodyFiles(dir);
  for (const sql of [
    'INSERT INTO t SELECT 1 FORMAT JSONEachRow',
    'INSERT INTO FUNCTION null() FORMAT JSONEachRow',
    'INSERT INTO t SETTINGS async_insert = 1 FORMAT JSONEachRow',
    'INSERT INTO t FORMAT TSV',
    `INSERT INTO t FROM INFILE '/etc/hosts' FORMAT JSONEachRow`,
  ])
    t.equal(await bodies.insert(sql, data, '1000', none), undefined, sql);
  t.equal(
    await bodies.insert(plain, data, '1000', async () => ({ rowsRead: 0 })),
    undefined,
    'goes the usual way',
  );
  t.strictSame(await readdir(join(dir, 'bodies')), []);
});

t.test('many at once do not get at each other', async (t) => {
  const { name, insert } = await insertTable();
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, n) =>
      insert(linesOf(3_000, (id) => `{"id":${id},"text":"of ${n}, and long"}`)),
    ),
  );
  t.ok(answers.every(({ status }) => status === 200));
  t.equal(await one(`SELECT count(), uniqExact(text), uniqExact(id, text) FROM ${name}`), '36000\t12\t36000');
});

/** A query that runs until its client leaves. Resolves once ClickHouse has begun it. */
async function endless(sql: string) {
  const before = await running();
  const sent = send(sql);
  await until('it runs', async () => (await running()) > before);
  return sent;
}

function send(sql: string) {
  const client = new AbortController();
  let ended = false;
  const answer = fetch(origin, { method: 'POST', headers: credentials, body: sql, signal: client.signal });
  const over = answer.then(
    () => {
      ended = true;
    },
    () => {},
  );
  return {
    answer,
    hasEnded: () => ended,
    left: async () => {
      client.abort();
      await over;
    },
  };
}

async function running(): Promise<number> {
  const sql =
    "SELECT count() FROM system.processes WHERE query LIKE '%00000)%' AND query NOT LIKE '%processes%'";
  return Number(await one(sql));
}

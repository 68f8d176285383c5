// Large bodies and results, long queries, and many of both at once: the embedded ClickHouse keeps what it promises
// of inserts, and no request waits for another caller's SELECT.

import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { BodyFiles } from '../../src/embedded/clickhouse-body-files.js';
import { until } from '../harness/until.js';
import { openWorld } from './world.js';

const { server, origin, credentials, client, post, one, table } = await openWorld(t);

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

t.test('a large result streams: its beginning is there while the query runs', async (t) => {
  const { left, answer } = await endless(
    'SELECT sleepEachRow(0.02) FROM numbers(1000000) SETTINGS max_block_size = 1',
  );
  const first = await answer.then(({ body }) => body?.getReader().read());
  t.equal(first?.done, false);
  await left();
});

t.test('a client that goes away in the middle of a result leaves the server as it was', async (t) => {
  for (let i = 0; i < 8; i++) {
    const abort = new AbortController();
    const answer = await fetch(origin, {
      method: 'POST',
      headers: credentials,
      body: 'SELECT number FROM numbers(1000000000) FORMAT TSV',
      signal: abort.signal,
    });
    await answer.body?.getReader().read();
    abort.abort();
  }
  t.equal(await one('SELECT 1'), '1', 'more than the places for reads were left');
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

t.test(
  'of a large insert all rows are there, as one block, and the same token again adds none',
  async (t) => {
    const { name, insert } = await insertTable();
    const token = { insert_deduplication_token: 'once' };
    const answer = await insert(LINES, token);
    t.equal(answer.status, 200, answer.text);
    t.match(JSON.parse(answer.headers.get('x-clickhouse-summary') ?? ''), { written_rows: String(ROWS) });
    t.equal(await one(`${TOTALS} FROM ${name}`), ALL);
    t.equal(await one(`SELECT count() FROM system.parts WHERE table = '${name}' AND active`), '1');
    t.equal((await insert(LINES, token)).status, 200);
    t.equal(await one(`${TOTALS} FROM ${name}`), ALL);
    t.strictSame(await readdir(join(server.dir, 'bodies')), []);
  },
);

t.test('a bad line refuses all of them, with its code, and without a path of ours', async (t) => {
  const { name, insert } = await insertTable();
  const answer = await insert(`${LINES}{"id":"x"}\n`);
  t.match(answer, { status: 400, text: /^Code: 27\..*at row 70001.*CANNOT_PARSE_INPUT_ASSERTION_FAILED/s });
  t.notMatch(answer.text, server.dir);
  t.equal(await one(`SELECT count() FROM ${name}`), '0');
  t.strictSame(await readdir(join(server.dir, 'bodies')), []);
});

t.test(
  'no file where chDB would read its path as a pattern, or the statement is more than a table and a format',
  async (t) => {
    const none = async (): Promise<{ rowsRead: number }> => {
      throw new Error('nothing is to run');
    };
    const data = [Buffer.from(LINES)];
    const odd = new BodyFiles(join(server.dir, '{a,b}*'));
    t.equal(await odd.insert('INSERT INTO t FORMAT JSONEachRow', data, '1000', none), undefined);
    const bodies = new BodyFiles(join(server.dir, 'even'));
    for (const sql of [
      'INSERT INTO t SELECT 1 FORMAT JSONEachRow',
      'INSERT INTO FUNCTION null() FORMAT JSONEachRow',
      'INSERT INTO t SETTINGS async_insert = 1 FORMAT JSONEachRow',
      'INSERT INTO t FORMAT TSV',
      `INSERT INTO t FROM INFILE '/etc/hosts' FORMAT JSONEachRow`,
    ])
      t.equal(await bodies.insert(sql, data, '1000', none), undefined, sql);
  },
);

t.test('a file that chDB does not find goes the usual way, and one that was left goes', async (t) => {
  const dir = join(server.dir, 'left');
  await mkdir(join(dir, 'bodies'), { recursive: true });
  await writeFile(join(dir, 'bodies', '1.jsonl'), LINES);
  const bodies = new BodyFiles(dir);
  const data = [Buffer.from(LINES)];
  t.equal(
    await bodies.insert('INSERT INTO t FORMAT JSONEachRow', data, '1000', async () => ({ rowsRead: 0 })),
    undefined,
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

t.test('a large insert into a table that is not there is refused as a small one is', async (t) => {
  const { name, insert } = await insertTable();
  await one(`DROP TABLE ${name}`);
  t.match(await insert(LINES), { status: 404, text: /^Code: 60\..*UNKNOWN_TABLE/s });
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

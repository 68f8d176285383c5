// Large bodies and results, long queries, and many of both at once: the embedded ClickHouse keeps what it promises
// of inserts, and no request waits for another caller's SELECT.

import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { until } from '../harness/until.js';
import { openWorld } from './world.js';

const { origin, credentials, client, post, one, table } = await openWorld(t);

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

// Large inserts reach chDB as files: nothing tells them from small ones but the time that they take.

import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { startClickHouse } from '../../src/embedded/clickhouse.js';
import { BodyFiles } from '../../src/embedded/clickhouse-body-files.js';
import { forFetch } from '../harness/clickhouse.js';

const ROWS = 70_000; // more than one block as chDB cuts them on its own
const LINES = linesOf(ROWS, (id) => `{"id":${id},"text":"schön \\"${id}\\"","unknown":[{}]}`);

const root = await mkdtemp(join(tmpdir(), 'wm-bodies-'));
t.teardown(() => rm(root, { recursive: true, force: true }));

function linesOf(rows: number, line: (id: number) => string): string {
  return Array.from({ length: rows }, (_, id) => `${line(id)}\n`).join('');
}

async function open(t: Pick<typeof import('tap')['default'], 'teardown'>, name: string) {
  const dir = join(root, name);
  const server = await startClickHouse({ dir });
  t.teardown(() => server.stop());
  const { origin, headers } = forFetch(server.url);
  const ask = async (params: Record<string, string>, body: string) => {
    const answer = await fetch(`${origin}/?${new URLSearchParams(params)}`, {
      method: 'POST',
      body,
      headers,
    });
    return { status: answer.status, text: (await answer.text()).trimEnd(), headers: answer.headers };
  };
  await ask(
    {},
    `CREATE TABLE t (id UInt64, text String, left_out UInt8 DEFAULT 7) ENGINE = MergeTree ORDER BY id
     SETTINGS non_replicated_deduplication_window = 100`,
  );
  const insert = (body: string, settings: Record<string, string> = {}) =>
    ask(
      {
        query: 'INSERT INTO t FORMAT JSONEachRow',
        input_format_skip_unknown_fields: '1',
        input_format_parallel_parsing: '0',
        ...settings,
      },
      body,
    );
  const one = async (sql: string) => (await ask({}, sql)).text;
  return { dir, insert, one };
}

const TOTALS =
  "SELECT count(), sum(id), sum(left_out), countIf(text = concat('schön \"', toString(id), '\"')) FROM t";
const ALL = [ROWS, (ROWS * (ROWS - 1)) / 2, ROWS * 7, ROWS].join('\t');
const PARTS = "SELECT count() FROM system.parts WHERE table = 't' AND active";

t.test('all rows are there, as one block, and the same token again adds none', async (t) => {
  const { dir, insert, one } = await open(t, 'plain');
  const token = { insert_deduplication_token: 'once' };
  const answer = await insert(LINES, token);
  t.equal(answer.status, 200, answer.text);
  t.match(JSON.parse(answer.headers.get('x-clickhouse-summary') ?? ''), { written_rows: String(ROWS) });
  t.equal(await one(TOTALS), ALL);
  t.equal(await one(PARTS), '1');
  t.equal((await insert(LINES, token)).status, 200);
  t.equal(await one(TOTALS), ALL);
  t.strictSame(await readdir(join(dir, 'bodies')), []);
});

t.test('a bad line refuses all of them, with its code, and without a path of ours', async (t) => {
  const { dir, insert, one } = await open(t, 'bad');
  const answer = await insert(`${LINES}{"id":"x"}\n`);
  t.match(answer, { status: 400, text: /^Code: 27\..*at row 70001.*CANNOT_PARSE_INPUT_ASSERTION_FAILED/s });
  t.notMatch(answer.text, dir);
  t.equal(await one('SELECT count() FROM t'), '0');
  t.strictSame(await readdir(join(dir, 'bodies')), []);
});

t.test(
  'no file where chDB would read its path as a pattern, or the statement is more than a table and a format',
  async (t) => {
    const none = async (): Promise<{ rowsRead: number }> => {
      throw new Error('nothing is to run');
    };
    const data = [Buffer.from(LINES)];
    const odd = new BodyFiles(join(root, '{a,b}*'));
    t.equal(await odd.insert('INSERT INTO t FORMAT JSONEachRow', data, '1000', none), undefined);
    const bodies = new BodyFiles(join(root, 'even'));
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
  const dir = join(root, 'left');
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
  const { insert, one } = await open(t, 'many');
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, n) =>
      insert(linesOf(3_000, (id) => `{"id":${id},"text":"of ${n}, and long"}`)),
    ),
  );
  t.ok(answers.every(({ status }) => status === 200));
  t.equal(await one('SELECT count(), uniqExact(text), uniqExact(id, text) FROM t'), '36000\t12\t36000');
});

t.test('a table that is not there', async (t) => {
  const { insert, one } = await open(t, 'none');
  await one('DROP TABLE t');
  t.match(await insert(LINES), { status: 404, text: /^Code: 60\..*UNKNOWN_TABLE/s });
});

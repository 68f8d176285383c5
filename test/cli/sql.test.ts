// `wishmeter sql` against a real ClickHouse (the embedded one): formats, errors, streams.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startClickHouse } from '../../src/embedded/clickhouse/start.js';
import { needsPrograms } from '../harness/needs.js';
import { MAIN, onTerminal, tempDir, wishmeter } from './wishmeter.js';

t.test('sql', async (t) => {
  const dir = await tempDir(t);
  const readable = { database: 'default', tables: ['seen'] };
  const clickhouse = await startClickHouse({ dir: join(dir, 'clickhouse'), readable });
  t.teardown(() => clickhouse.stop());
  const env = { CLICKHOUSE_URL: clickhouse.url, CLICKHOUSE_DATABASE: 'default' };
  const sql = (args: string[], stdin?: string) =>
    wishmeter({ args: ['sql', ...args], env, ...(stdin === undefined ? {} : { stdin }) });

  const shown = (t: Test, query: string) => onTerminal(t, `sql "${query}"`, env).ended();

  t.test('a pipe gets tab-separated values under a header, or the format asked for', async (t) => {
    const told = await sql(["SELECT number AS n, 'é☃' AS s FROM numbers(2)"]);
    t.match(told, { code: 0, stdout: 'n\ts\n0\té☃\n1\té☃\n', stderr: '' });
    t.equal((await sql(['--format', 'JSONEachRow', 'SELECT 1 AS n'])).stdout, '{"n":1}\n');
    t.equal((await sql(['-f', 'JSONEachRow', 'SELECT 1 AS n FORMAT CSV'])).stdout, '1\n');
    t.equal((await sql([], 'SELECT 7 AS n\n')).stdout, 'n\n7\n', 'the query comes from stdin');
  });

  t.test("an error is one line with ClickHouse's text, exit code 1", async (t) => {
    const { code, stdout, stderr } = await sql(['SELECT nothing_like_it\nFROM nowhere']);
    t.equal(code, 1);
    t.equal(stdout, '');
    t.match(stderr, /^wishmeter: Code: 60\. DB::Exception: [^\n]*nowhere[^\n]*\n$/);
  });

  t.test('a question without its days says so, and with them in the wrong order', async (t) => {
    const own = { ...env, CLICKHOUSE_DATABASE: 'dates' };
    t.match(await wishmeter({ args: ['migrate'], env: own }), { code: 0 });
    const error = async (query: string) => (await wishmeter({ args: ['sql', query], env: own })).stderr;
    const example = /most_wished asks for days: write most_wished\(from = '2026-03-01', to = '2026-03-31'\)/;
    t.match(await error('SELECT * FROM most_wished'), example);
    t.match(await error("SELECT * FROM most_wished(from = '2026-03-01')"), example);
    t.match(await error('SELECT * FROM momentum'), /momentum\(until = '2026-03-31'\)/);
    t.notMatch(await error("SELECT x FROM most_wished(from = '2026-03-01', to = '2026-03-31')"), /asks for/);
    t.match(
      await error("SELECT * FROM most_wished(from = '2026-03-31', to = '2026-03-01')"),
      /from is after to: give the first day as from/,
    );
  });

  t.test('names are looked up in CLICKHOUSE_DATABASE', async (t) => {
    t.equal((await sql(['CREATE DATABASE shop'])).code, 0);
    const { stdout } = await wishmeter({
      args: ['sql', 'SELECT currentDatabase() AS db'],
      env: { ...env, CLICKHOUSE_DATABASE: 'shop' },
    });
    t.equal(stdout, 'db\nshop\n');
  });

  t.test('a large answer is streamed whole, and a reader that has seen enough ends it quietly', async (t) => {
    const { code, stdout } = await sql(['SELECT number FROM numbers(1000000)']);
    t.equal(code, 0);
    t.equal(stdout.split('\n').length, 1_000_002); // header, and nothing after the last newline
    const pipe = '"$0" "$1" sql "SELECT number FROM numbers(5000000)" | head -n 3; exit $?';
    const options = { env: { PATH: process.env.PATH, ...env }, encoding: 'utf8', timeout: 60_000 } as const;
    const head = spawnSync('/bin/sh', ['-c', pipe, process.execPath, MAIN], options);
    t.match(head, { status: 0, stdout: 'number\n0\n1\n', stderr: '' });
  });

  t.test('a terminal gets a table', needsPrograms('script'), async (t) => {
    t.match(await shown(t, "SELECT 1 AS n, 'x' AS s"), /┌─n─┬─s─┐\n.*│ 1 │ x │\n *└───┴───┘/);
  });

  t.test(
    'a terminal shows escape sequences as text; a pipe gets the bytes',
    needsPrograms('script'),
    async (t) => {
      const query = "SELECT unhex('1B5D303B7077C29B6DE280AE7F07') AS s FORMAT TSVRaw";
      const screen = await shown(t, query);
      t.match(screen, '\\u001b]0;pw\\u009bm\\u202e\\u007f\\u0007');
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
      t.notMatch(screen, /[\u001b\u009b\u202e\u007f\u0007]/);
      t.equal((await sql([query])).stdout, '\u001b]0;pw\u009bm\u202e\u007f\u0007\n');
      const { stderr: error } = await sql(["SELECT '\u001b[31m' + nothing"]);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
      t.notMatch(error, /\u001b/, 'nor do errors, which quote the query');
    },
  );

  t.test('the embedded one is asked as its analyst; --write is the service', async (t) => {
    const env = {
      DATA_DIR: dir,
      CLICKHOUSE_PORT: new URL(clickhouse.url).port,
      CLICKHOUSE_DATABASE: 'default',
    };
    const own = (...args: string[]) => wishmeter({ args: ['sql', ...args], env });
    const create = 'CREATE TABLE seen (a UInt8) ENGINE = Memory';
    t.match(await own(create), { code: 1, stderr: /ACCESS_DENIED/ });
    t.match(await own('--write', create), { code: 0 });
    t.match(await own('--write', 'INSERT INTO seen VALUES (7)'), { code: 0 });
    t.match(await own('INSERT INTO seen VALUES (8)'), { code: 1, stderr: /ACCESS_DENIED/ });
    t.equal((await own('SELECT a FROM seen')).stdout, 'a\n7\n');
    for (const CLICKHOUSE_PORT of ['0', '1']) {
      const read = { args: ['sql', 'SELECT a FROM seen'], env: { ...env, CLICKHOUSE_PORT } };
      t.equal((await wishmeter(read)).stdout, 'a\n7\n', 'the port of the one that runs comes first');
    }
    const late = await own("SELECT throwIf(number = 2999999, 'too late') FROM numbers(3000000)");
    t.match(late, { code: 1, stdout: /\n0\n0\n/, stderr: /^wishmeter: Code: 395\. .*too late[^\n]*\n$/ });
    t.match(await wishmeter({ args: ['migrate'], env: { ...env, CLICKHOUSE_DATABASE: 'shop' } }), {
      code: 0,
      stdout: /001_schema/,
    });
    const elsewhere = { ...env, DATA_DIR: await tempDir(t) };
    t.match(await wishmeter({ args: ['sql', '--write', 'SELECT 1'], env: elsewhere }), {
      code: 1,
      stderr: /There is no password in .*DATA_DIR/,
    });
  });
});

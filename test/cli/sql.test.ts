// `wishmeter sql` against a real ClickHouse (the embedded one): formats, errors, streams.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { startClickHouse } from '../../src/embedded/clickhouse.js';
import { MAIN, tempDir, wishmeter } from './wishmeter.js';

t.test('sql', async (t) => {
  const clickhouse = await startClickHouse({ dir: await tempDir(t) });
  t.teardown(() => clickhouse.stop());
  const env = { CLICKHOUSE_URL: clickhouse.url, CLICKHOUSE_DATABASE: 'default' };
  const sql = (args: string[], stdin?: string) =>
    wishmeter({ args: ['sql', ...args], env, ...(stdin === undefined ? {} : { stdin }) });

  t.test('a pipe gets tab-separated values under a header', async (t) => {
    t.match(await sql(["SELECT number AS n, 'é☃' AS s FROM numbers(2)"]), {
      code: 0,
      stdout: 'n\ts\n0\té☃\n1\té☃\n',
      stderr: '',
    });
  });

  t.test('--format is obeyed, and a FORMAT in the query goes before it', async (t) => {
    t.equal((await sql(['--format', 'JSONEachRow', 'SELECT 1 AS n'])).stdout, '{"n":1}\n');
    t.equal((await sql(['-f', 'JSONEachRow', 'SELECT 1 AS n FORMAT CSV'])).stdout, '1\n');
  });

  t.test('without an argument the query is read from stdin', async (t) => {
    t.equal((await sql([], 'SELECT 7 AS n\n')).stdout, 'n\n7\n');
  });

  t.test("an error is one line with ClickHouse's text, exit code 1", async (t) => {
    const { code, stdout, stderr } = await sql(['SELECT nothing_like_it\nFROM nowhere']);
    t.equal(code, 1);
    t.equal(stdout, '');
    t.match(stderr, /^wishmeter: Code: 60\. DB::Exception: [^\n]*nowhere[^\n]*\n$/);
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
    const head = spawnSync(
      '/bin/sh',
      [
        '-c',
        `"$0" "$1" sql "SELECT number FROM numbers(5000000)" | head -n 3; exit $?`,
        process.execPath,
        MAIN,
      ],
      { env: { PATH: process.env.PATH, ...env }, encoding: 'utf8', timeout: 60_000 },
    );
    t.match(head, { status: 0, stdout: 'number\n0\n1\n', stderr: '' });
  });

  const noTerminal = spawnSync('script', ['--version']).error ? { skip: 'no script(1) here' } : {};
  t.test('a terminal gets a table', noTerminal, async (t) => {
    const command = `exec ${process.execPath} ${MAIN} sql "SELECT 1 AS n, 'x' AS s"`;
    const terminal = spawn('script', ['-qec', command, '/dev/null'], {
      env: { PATH: process.env.PATH, ...env },
    });
    let screen = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      screen += text;
    });
    t.same(await once(terminal, 'close'), [0, null]);
    t.match(screen.replaceAll('\r', ''), /┌─n─┬─s─┐\n.*│ 1 │ x │\n *└───┴───┘/);
  });
});

t.test('a ClickHouse that is not there is one sentence', async (t) => {
  for (const env of [{ CLICKHOUSE_URL: 'http://127.0.0.1:1' }, { CLICKHOUSE_PORT: '1' }]) {
    const { code, stderr } = await wishmeter({ args: ['sql', 'SELECT 1'], env });
    t.equal(code, 1);
    t.match(stderr, /^wishmeter: ClickHouse does not answer at http:\/\/127\.0\.0\.1:1 [^\n]+\n$/);
  }
});

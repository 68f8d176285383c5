// `wishmeter start` as someone meets it: the real program, real databases, signals, and what is left after it.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { findProcess, processesOf } from './processes.js';
import { client, killAndAwaitNext, logLines, nothingLeft, started, startSettings } from './started.js';
import { MAIN, spawnWishmeter, tempDir, until, wishmeter } from './wishmeter.js';

const CHILDREN = [
  /^wishmeter serve/,
  /^wishmeter flush/,
  /^wishmeter clickhouse/,
  /redis-server|valkey-server/,
];
const NEED_PROC = process.platform === 'linux' ? {} : { skip: 'reads /proc' };

const apiKey = async (dir: string) => (await readFile(join(dir, 'api-key'), 'utf8')).trim();

/** Asks the running one as an analyst would. */
async function sql(clickhouseUrl: string, query: string): Promise<string> {
  const { code, stdout, stderr } = await wishmeter({
    args: ['sql', '--format', 'TSV', query],
    env: { CLICKHOUSE_URL: clickhouseUrl },
  });
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
}

t.test('everything is still there after a stop and another start', async (t) => {
  const dir = await tempDir(t);
  const first = await started(t, dir);
  const key = await apiKey(dir);
  t.match(key, /^sk_[\w-]{43}$/, 'a key was made');
  t.equal((await stat(join(dir, 'api-key'))).mode & 0o777, 0o600);
  const shop = client(first.url, key);
  for (let i = 0; i < 3; i++) t.equal((await shop.visit('s-1', 'red-shoe')).status, 200);
  t.equal((await shop.event('s-1', 'add', { productId: '1001' })).status, 200);
  const ended = await first.stop();
  t.match(ended, { code: 0, signal: null });
  t.equal(ended.stdout.match(/"msg":"ready"/g)?.length, 1, 'one ready line');
  t.doesNotThrow(() => logLines(ended.stdout), 'every line is JSON');
  t.same(await processesOf(dir), []);

  const second = await started(t, dir);
  t.equal(await apiKey(dir), key, 'the key is kept');
  const again = client(second.url, key);
  t.equal(await again.count('s-1', 'red-shoe'), 3);
  // It may have been moved before the stop or after this start; once, either way.
  await until('the event is there', async () => {
    return (await sql(second.clickhouseUrl, 'SELECT count() FROM events')) === '1';
  });
  t.equal((await second.stop()).code, 0);
});

t.test('the key is in no log line, however much is logged', async (t) => {
  const dir = await tempDir(t);
  const { stop, url } = await started(t, dir, { LOG_LEVEL: 'trace' });
  const key = await apiKey(dir);
  t.equal((await client(url, key).event('s-1', 'add', {})).status, 200);
  const { stdout, stderr } = await stop();
  t.notMatch(stdout + stderr, key);
});

t.test('it stops in the order that loses nothing', NEED_PROC, async (t) => {
  const dir = await tempDir(t);
  const { stop } = await started(t, dir, { LOG_LEVEL: 'debug', WORKERS: '2' });
  t.equal((await processesOf(dir)).filter(({ title }) => title.startsWith('wishmeter serve')).length, 2);
  const { code, stdout } = await stop();
  t.equal(code, 0);
  const stopped = logLines(stdout).flatMap(({ msg, child }) => (msg === 'stopped' && child ? [child] : []));
  t.same(stopped.slice(0, 2).sort(), ['serve 1', 'serve 2']);
  t.same(stopped.slice(2), ['flush', 'clickhouse', 'redis']);
});

t.test('a second signal stops everything at once, also what hangs', NEED_PROC, async (t) => {
  const dir = await tempDir(t);
  const { running } = await started(t, dir);
  const flush = await until('flush is there', () => findProcess(dir, /^wishmeter flush/));
  process.kill(flush.pid, 'SIGSTOP');
  running.child.kill('SIGTERM');
  await until('serve has stopped', async () => !(await findProcess(dir, /^wishmeter serve/)));
  const asked = performance.now();
  running.child.kill('SIGTERM');
  t.match(await running.ended, { code: 143 });
  await nothingLeft(dir, 2_000);
  t.ok(performance.now() - asked < 2_000);
});

t.test('kill -9 of start leaves nothing behind and blocks no later start', NEED_PROC, async (t) => {
  const dir = await tempDir(t);
  const { running, url } = await started(t, dir);
  t.equal((await client(url, '').visit('s-1', 'red-shoe')).status, 200);
  running.child.kill('SIGKILL');
  await running.ended;
  await nothingLeft(dir);
  const next = await started(t, dir);
  t.equal(await client(next.url, '').count('s-1', 'red-shoe'), 1);
  t.equal((await next.stop()).code, 0);
});

t.test('each child that is killed comes back, and nothing is lost', NEED_PROC, async (t) => {
  const dir = await tempDir(t);
  const { url, clickhouseUrl, stop } = await started(t, dir);
  const shop = client(url, await apiKey(dir));
  let events = 0;
  for (const title of CHILDREN) {
    await killAndAwaitNext(dir, title);
    await until(`served again after ${title}`, async () => {
      const answer = await shop.visit('s-1', `after ${title}`).catch(() => undefined);
      return answer?.status === 200;
    });
    await until('an event is taken', async () => {
      const answer = await shop.event('s-1', 'add', { productId: '1' }).catch(() => undefined);
      return answer?.status === 200;
    });
    events += 1;
    await until(`${events} events in ClickHouse after ${title}`, async () => {
      const count = await sql(clickhouseUrl, 'SELECT count() FROM events').catch(() => '');
      return Number(count) >= events;
    });
    t.equal(Number(await sql(clickhouseUrl, 'SELECT count() FROM events')), events, `${title}`);
  }
  t.equal((await stop()).code, 0);
});

t.test('a second start on the same folder is refused and changes nothing', async (t) => {
  const dir = await tempDir(t);
  const { running, url, stop } = await started(t, dir);
  const { code, stderr } = await wishmeter({ args: ['start'], env: startSettings(dir) });
  t.equal(code, 1);
  t.match(
    stderr,
    new RegExp(`^wishmeter: Another .wishmeter start. \\(pid ${running.child.pid}\\)[^\\n]+\\n$`),
  );
  t.equal((await client(url, '').visit('s-1', 'red-shoe')).status, 200);
  t.equal((await stop()).code, 0);
});

t.test('a signal while it starts ends it in order', NEED_PROC, async (t) => {
  const dir = await tempDir(t);
  const running = spawnWishmeter({ args: ['start'], env: startSettings(dir) });
  await until('clickhouse is on its way', () => findProcess(dir, /clickhouse/));
  running.child.kill('SIGTERM');
  t.match(await running.ended, { code: 0, stderr: '' });
  t.same(await processesOf(dir), []);
});

t.test('what keeps it from starting is one sentence, exit code 1, and nothing is left running', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const taken = String((other.address() as { port: number }).port);
  const empty = join(await tempDir(t), 'empty');
  await mkdir(empty);
  const pretend = encodeURIComponent("Object.defineProperty(process.versions, 'modules', { value: '999' })");
  const cases: Record<string, { env: NodeJS.ProcessEnv; sentence: RegExp; nodeArgs?: string[] }> = {
    'a taken port': { env: { PORT: taken }, sentence: /Port \d+ is taken; .*PORT/ },
    'a taken port of ClickHouse': {
      env: { CLICKHOUSE_PORT: taken },
      sentence: /Port \d+ is taken; .*CLICKHOUSE_PORT/,
    },
    'no redis-server': { env: { PATH: empty }, sentence: /redis-server.* (PATH|installed|install)/ },
    'a Redis that does not answer': {
      env: { REDIS_URL: 'redis://127.0.0.1:1' },
      sentence: /Redis does not answer/,
    },
    'a ClickHouse that does not answer': {
      env: { CLICKHOUSE_URL: 'http://127.0.0.1:1' },
      sentence: /ClickHouse/,
    },
    'a folder that is a file': { env: { DATA_DIR: MAIN }, sentence: /DATA_DIR/ },
    'no binary of uWebSockets.js': {
      env: {},
      sentence: /no binary .*npm install/,
      nodeArgs: [`--import=data:text/javascript,${pretend}`],
    },
  };
  for (const [name, { env, sentence, nodeArgs = [] }] of Object.entries(cases)) {
    const dir = await tempDir(t);
    const ended = await wishmeter({ args: ['start'], env: { ...startSettings(dir), ...env }, nodeArgs });
    t.equal(ended.code, 1, name);
    t.match(ended.stderr, sentence, name);
    t.match(ended.stderr, /^wishmeter: [^\n]+\n$/, `${name}: one sentence`);
    if (process.platform === 'linux') await nothingLeft(dir, 2_000);
  }
});

// script(1), of util-linux, makes a terminal.
const lacking = ['script', 'curl'].filter((program) => spawnSync(program, ['--version']).error);
const ON_TERMINAL = lacking.length > 0 ? { skip: `no ${lacking.join(', ')} here` } : {};

t.test('a terminal gets a banner whose lines work, and Ctrl-C stops it', ON_TERMINAL, async (t) => {
  const dir = await tempDir(t);
  const terminal = spawn('script', ['-qec', `${process.execPath} ${MAIN} start`, '/dev/null'], {
    env: { PATH: process.env.PATH, ...startSettings(dir) },
  });
  let screen = '';
  terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text.replaceAll('\r', '');
  });
  const ended = once(terminal, 'exit');
  t.teardown(async () => {
    terminal.kill('SIGKILL');
    await nothingLeft(dir);
  });
  await until('the banner', () => screen.includes('Ctrl-C'));
  t.match(screen, await apiKey(dir), 'shows the key');
  t.notMatch(screen, /^\{/m, 'no log lines');
  const lines = screen.split('\n').filter((line) => /^ {2}(curl|.*npx wishmeter sql)/.test(line));
  t.equal(lines.length, 4, 'three curl lines and one of SQL');
  const answers: string[] = [];
  for (const line of lines.slice(0, 3)) answers.push(await shell(line));
  t.match(answers[0], '"productHandle":"red-shoe"');
  t.match(answers[1], '"count":1');
  t.match(answers[2], '"profileId"');
  // npx looks for the program in node_modules/.bin, which the Makefile fills; here it is called directly.
  const line = (lines[3] as string).replace('npx wishmeter', `${process.execPath} ${MAIN}`);
  await until('the event is in ClickHouse', async () => (await shell(line)).includes('1001'));

  terminal.stdin.write('\u0003');
  t.same(await ended, [0, null]);
  t.match(screen, /Stopping/);
  await nothingLeft(dir, 2_000);
});

async function shell(line: string): Promise<string> {
  const sh = spawn('/bin/sh', ['-c', line], { stdio: ['ignore', 'pipe', 'ignore'] });
  let out = '';
  sh.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  await once(sh, 'close');
  return out;
}

// `wishmeter start` from its start to its end, in one folder: what it keeps, what it says and shows on a terminal, how it
// stops, and what keeps it from starting. Nothing is left of it, whichever way it ends.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import t from 'tap';
import { writeServiceUrl } from '../../src/embedded/clickhouse/service-url.js';
import { outsideAddress } from '../embedded/processes.js';
import { needsProc, needsPrograms } from '../harness/needs.js';
import { findProcess, processesOf } from './processes.js';
import {
  apiKey,
  logLines,
  nothingLeft,
  type Started,
  shopAt,
  sql,
  started,
  startSettings,
} from './started.js';
import { MAIN, onTerminal, type Running, spawnWishmeter, tempDir, until, wishmeter } from './wishmeter.js';

const GUEST = { sessionId: 's-1' };
/** NODE_OPTIONS with which another program gets each port at the moment when it is free. */
const NEIGHBOUR = `--import=data:text/javascript,${encodeURIComponent(`
  import { createServer, Server } from 'node:net';
  const { close } = Server.prototype;
  Server.prototype.close = function (done) {
    const port = this.address()?.port;
    return close.call(this, () => {
      if (port) createServer().listen(port, '127.0.0.1').on('error', () => {}).unref();
      done?.();
    });
  };`)}`;

t.test('runs of one folder, whatever it is called', needsProc(), async (all) => {
  const dir = join(await tempDir(all), 'a #b?c%d');
  const password = async () =>
    new URL(await readFile(join(dir, 'clickhouse', 'service-url'), 'utf8')).password;
  let key = '';
  let firstPassword = '';
  let run: Started;
  const start = async (env: NodeJS.ProcessEnv = {}) => {
    run = await started(all, dir, env);
    return run;
  };

  await all.test('it keeps to this machine, to its owner, and to its setting of syncing', async (t) => {
    // Everything is logged, and a port of 0 is taken by the process that listens on it.
    const env = { LOG_LEVEL: 'trace', WORKERS: '2', NODE_OPTIONS: NEIGHBOUR };
    const { url, clickhouseUrl, dashboardUrl } = await start({ ...env, HOST: '', REDIS_FSYNC: 'always' });
    t.equal(new URL(url).hostname, '127.0.0.1', 'without HOST it listens on loopback');
    const outside = outsideAddress();
    if (outside) await t.rejects(fetch(`http://${outside}:${new URL(url).port}/healthz`), 'and nowhere else');
    t.equal((await fetch(`${clickhouseUrl}/ping`)).status, 200);
    t.equal((await fetch(dashboardUrl)).status, 200);
    const redis = new Redis({ path: join(dir, 'redis', 'redis.sock') });
    t.same(await redis.config('GET', 'appendfsync'), ['appendfsync', 'always']);
    redis.disconnect();
    t.equal((await stat(dir)).mode & 0o777, 0o700);
    for (const name of await readdir(dir, { recursive: true })) {
      const { mode } = await stat(join(dir, name)).catch(() => ({ mode: 0 })); // parts come and go
      t.equal(mode & 0o077, 0, name);
    }
    t.equal((await stat(join(dir, 'api-key'))).mode & 0o777, 0o600);
    t.match(await wishmeter({ args: ['migrate'], env: { DATA_DIR: dir } }), {
      code: 0,
      stdout: 'Nothing to do.\n',
    });
    firstPassword = await password();
    t.equal(new URL(clickhouseUrl).password, '', 'what it logs has no password');
  });

  await all.test('it stops in the order that loses nothing, and its key is in no log line', async (t) => {
    key = await apiKey(dir);
    t.match(key, /^sk_[\w-]{43}$/, 'a key was made');
    for (let i = 0; i < 3; i++) await shopAt(run.url, key).visit(GUEST);
    await shopAt(run.url, key).event(GUEST);
    t.equal((await processesOf(dir)).filter(({ title }) => title.startsWith('wishmeter serve')).length, 2);
    const { code, signal, stdout, stderr } = await run.stop();
    t.same({ code, signal }, { code: 0, signal: null });
    t.equal(stdout.match(/"msg":"ready"/g)?.length, 1, 'one ready line');
    const lines = logLines(stdout);
    const stopped = lines.flatMap(({ msg, child }) => (msg === 'child stopped' ? [child] : []));
    t.same(stopped.slice(0, 2).sort(), ['serve 1', 'serve 2']);
    t.same(stopped.slice(2), ['dashboard', 'flush', 'deliver', 'clickhouse', 'redis']);
    t.notMatch(stdout + stderr, key);
    t.same(await processesOf(dir), []);
  });

  await all.test('another start has everything, the same key and a new password', async (t) => {
    const { url, clickhouseUrl } = await start();
    t.equal(await apiKey(dir), key);
    t.not(await password(), firstPassword);
    t.equal(await shopAt(url, key).count(GUEST), 3);
    // It may have been moved before the stop or after this start; once, either way.
    await until('the event is there', async () => {
      return (await sql(clickhouseUrl, 'SELECT count() FROM events')) === '1';
    });
  });

  await all.test('a second signal stops everything at once, also what hangs', async (t) => {
    const flush = await until('flush is there', () => findProcess(dir, /^wishmeter flush/));
    process.kill(flush.pid, 'SIGSTOP');
    run.running.child.kill('SIGTERM');
    await until('serve has stopped', async () => !(await findProcess(dir, /^wishmeter serve/)));
    run.running.child.kill('SIGTERM');
    t.match(await run.running.ended, { code: 143 }, 'not 0, as when all have stopped in order');
    await nothingLeft(dir); // guards look once a second
  });

  // What is left of it ends by itself, flush as the last: it tries a Redis that is gone for ten seconds. Two tests use them.
  const killed = await start({ FLUSH_INTERVAL_MS: '60000' });
  await shopAt(killed.url, key).visit(GUEST);
  await shopAt(killed.url, key).event(GUEST);
  killed.running.child.kill('SIGKILL');

  await all.test(
    'what keeps it from starting is one sentence, exit code 1, and nothing is left running',
    async (t) => {
      const other = createServer().listen(0, '127.0.0.1');
      t.teardown(() => other.close());
      await once(other, 'listening');
      const { port } = other.address() as AddressInfo;
      // Before anything has started, and after children have. test/cli/start-parts.test.ts has the other reasons.
      const cases: [env: NodeJS.ProcessEnv, sentence: RegExp][] = [
        [{ PORT: String(port) }, /Port \d+ is taken; .*PORT/],
        [{ REDIS_URL: 'redis://127.0.0.1:1' }, /Redis does not answer/],
        [{ CLICKHOUSE_URL: 'http://127.0.0.1:1' }, /ClickHouse/],
      ];
      for (const [env, sentence] of cases) {
        const dir = await tempDir(t);
        const { code, stderr } = await wishmeter({ args: ['start'], env: { ...startSettings(dir), ...env } });
        t.equal(code, 1, String(sentence));
        t.match(stderr, sentence);
        t.match(stderr, /^wishmeter: [^\n]+\n$/, 'one sentence');
        await nothingLeft(dir);
      }
    },
  );

  await all.test(
    'the lines of the banner work, and Ctrl-C stops it',
    needsPrograms('script', 'curl'),
    async (t) => {
      const dir = await tempDir(t);
      t.teardown(() => nothingLeft(dir));
      const { screen, ctrlC, ended } = onTerminal(t, 'start', startSettings(dir));
      await until('the banner', () => screen().includes('Ctrl-C'));
      t.match(screen(), await apiKey(dir), 'shows the key');
      t.notMatch(screen(), /^\{/m, 'no log lines');
      const lines = screen()
        .split('\n')
        .filter((line) => /^ {2}(curl|.*npx wishmeter sql)/.test(line));
      t.equal(lines.length, 4, 'three curl lines and one of SQL');
      const answers: string[] = [];
      for (const line of lines.slice(0, 3)) answers.push(await shell(line));
      t.match(answers, [/"productHandle":"red-shoe"/, /"count":1/, /"profileId"/]);
      // npx looks for the program in node_modules/.bin, which the Makefile fills; here it is called directly.
      const line = (lines[3] as string).replace('npx wishmeter', `${process.execPath} ${MAIN}`);
      // Also in a folder where another one has run.
      const cwd = await tempDir(t);
      await mkdir(join(cwd, 'data', 'clickhouse'), { recursive: true });
      writeServiceUrl(join(cwd, 'data', 'clickhouse'), 'of-another', 1);
      await until('the event is in ClickHouse', async () => (await shell(line, cwd)).includes('1001'));
      ctrlC();
      t.match(await ended(), /Stopping/);
    },
  );

  await all.test('after a kill -9 nothing is left, and of two starts at one moment one runs', async (t) => {
    await nothingLeft(dir);
    const rivals = [1, 2].map(() => spawnWishmeter({ args: ['start'], env: startSettings(dir) }));
    all.teardown(async () => {
      for (const { child } of rivals) child.kill('SIGKILL');
      await nothingLeft(dir);
    });
    const readyLine = (rival: Running) => logLines(rival.stdout()).find(({ msg }) => msg === 'ready');
    const winner = await until('one is ready', () => rivals.find(readyLine));
    const loser = rivals.find((rival) => rival !== winner) as Running;
    t.match(await loser.ended, { code: 1, stderr: new RegExp(`\\(pid ${winner.child.pid}\\) uses`) });
    const redises = (await processesOf(dir)).filter(({ title }) => /^\S*(redis|valkey)-server/.test(title));
    t.equal(redises.length, 1, JSON.stringify(redises));
    const { url, clickhouseUrl } = readyLine(winner) as { url?: string; clickhouseUrl?: string };
    t.equal(await shopAt(String(url), key).count(GUEST), 4);
    await until('the event is there', async () => {
      return (await sql(String(clickhouseUrl), 'SELECT count() FROM events')) === '2';
    });
    winner.child.kill('SIGTERM');
    t.equal((await winner.ended).code, 0);
  });

  await all.test('a signal while it starts ends it in order', async (t) => {
    const running = spawnWishmeter({ args: ['start'], env: startSettings(dir) });
    await until('clickhouse is on its way', () => findProcess(dir, /clickhouse/));
    running.child.kill('SIGTERM');
    t.match(await running.ended, { code: 0, stderr: '' });
    t.same(await processesOf(dir), []);
  });
});

async function shell(line: string, cwd = '.'): Promise<string> {
  const sh = spawn('/bin/sh', ['-c', line], { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
  let out = '';
  sh.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  await once(sh, 'close');
  return out;
}

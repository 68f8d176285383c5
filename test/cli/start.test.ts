// `wishmeter start` in one folder: what it keeps, says and shows, how it stops, what refuses it, and children that hang or die.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import t from 'tap';
import { writeServiceUrl } from '../../src/extras/embedded/clickhouse/service-url.js';
import { outsideAddress } from '../extras/embedded/processes.js';
import { putMigrated } from '../harness/clickhouse.js';
import { ask } from '../harness/client.js';
import { listen } from '../harness/listen.js';
import { needsProc, needsPrograms } from '../harness/needs.js';
import { findProcess, processesOf } from './processes.js';
import {
  apiKey,
  killAndAwaitNext,
  nothingLeft,
  type Started,
  shopAt,
  sql,
  started,
  startSettings,
} from './started.js';
import {
  failureIn,
  logLines,
  MAIN,
  onTerminal,
  type Running,
  spawnWishmeter,
  tempDir,
  until,
  wishmeter,
} from './wishmeter.js';

const [SCRIPT, SHELL] = [needsPrograms('script'), needsPrograms('script', 'curl')];
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
const WORKERS = ['1', '2'];
const REDIS = /^\S*(redis|valkey)-server/;
const CHILDREN = [/^wishmeter serve/, /^wishmeter flush/, /^wishmeter clickhouse/, REDIS];
function samples(scrape: string, name: string): Map<string, number> {
  const lines = scrape.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return new Map(Array.from(lines, ([, labels = '', value]) => [labels, Number(value)]));
}
const LIMIT = 30;
const CONNECTIONS = 24;
/** Enough that a worker which accepts the whole limit is noticed. */
const ACCEPTED = 4 * LIMIT;
const WITHIN_MS = 120_000;
/** The address of the caller that floods: others are counted by themselves. */
const FLOODER = '127.0.0.2';
t.test('wishmeter start in one folder with an odd name', needsProc(), async (all) => {
  const dir = join(await tempDir(all), 'a #b?c%d{e,f}*');
  const password = async () =>
    new URL(await readFile(join(dir, 'clickhouse', 'service-url'), 'utf8')).password;
  await putMigrated(join(dir, 'clickhouse'), 'wishmeter');
  const first = await started(all, dir, {
    LOG_LEVEL: 'trace',
    NODE_OPTIONS: NEIGHBOUR,
    HOST: '',
    REDIS_FSYNC: 'always',
    WORKERS: String(WORKERS.length),
    RATE_LIMIT: String(LIMIT),
  });
  const { url, clickhouseUrl, dashboardUrl } = first;
  const firstPassword = await password();
  const port = Number(new URL(url).port);
  const key = await apiKey(dir);
  const shop = shopAt(url, key);
  const backup = join(await tempDir(all), 'backup');

  await all.test(
    'start listens on loopback, keeps its files for its owner, and applies REDIS_FSYNC',
    async (t) => {
      t.equal(new URL(url).hostname, '127.0.0.1', 'without HOST it listens on loopback');
      const outside = outsideAddress();
      if (outside)
        await t.rejects(fetch(`http://${outside}:${new URL(url).port}/healthz`), 'and nowhere else');
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
      const files = { keyFile: join(dir, 'api-key'), dashboardTokenFile: join(dir, 'dashboard-token') };
      t.match(await first.running.logged('ready'), files, 'the log says where key and token are');
      t.notMatch(first.running.stdout(), key);
      const migrated = await wishmeter({ args: ['migrate'], env: { DATA_DIR: dir } });
      t.match(migrated, { code: 0, stdout: 'Nothing to do.\n' });
      t.equal(new URL(clickhouseUrl).password, '', 'what it logs has no password');
    },
  );

  await all.test('GET /popular has the numbers of the embedded ClickHouse', async (t) => {
    const popular = await until('its first look has ended', async () => {
      const answer = await ask(port, 'GET', '/popular?top=1');
      return answer.status === 200 && answer;
    });
    t.same(popular.json, { products: [] });
  });

  /** On a connection of its own, which may reach any worker, unless `agent` is given. */
  const visit = async (sessionId: string, how: { agent?: Agent; from?: string } = {}) => {
    const body = { identity: { sessionId }, productHandle: 'p' };
    return (await ask(port, 'POST', '/product/visit', { body, ...how })).status;
  };
  const scrape = async () => (await ask(port, 'GET', '/metrics')).text;
  const workersIn = (text: string) => [...samples(text, 'process_start_time_seconds').keys()];
  const visitsIn = (text: string) =>
    WORKERS.map((worker) => {
      const labels = `worker="${worker}",operation="post /product/visit",status="200"`;
      return samples(text, 'wishmeter_http_answers_total').get(labels) ?? 0;
    });

  await all.test('a scrape of start shows the metrics of all workers, each under its name', async (t) => {
    for (let i = 0; i < LIMIT / 2; i++) t.equal(await visit('s', { from: `127.0.1.${i + 1}` }), 200);
    const scrapes = await Promise.all(Array.from({ length: 20 }, scrape));
    for (const text of scrapes) {
      const [one = 0, other = 0] = visitsIn(text);
      t.equal(one + other, LIMIT / 2);
      t.same(workersIn(text), ['worker="1"', 'worker="2"']);
      t.same([...samples(text, 'wishmeter_redis_up')], [['', 1]], 'what is in Redis belongs to no worker');
      const pending = [...samples(text, 'wishmeter_stream_pending_events')];
      t.same(pending, [['stream="0"', 0]], 'also beside other scrapes');
      t.equal(text.match(/^# TYPE wishmeter_http_answers_total /gm)?.length, 1);
    }
  });

  await all.test('a caller that floods all workers of start is held to RATE_LIMIT', async (t) => {
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    t.teardown(() => agent.destroy());
    const statuses = new Map<number, number>();
    const began = performance.now();
    const accepted = () => statuses.get(200) ?? 0;
    let isEnough = false;
    const flood = Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        while (!isEnough) {
          const status = await visit('flood', { agent, from: FLOODER });
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          await sleep(40); // more than the limit, and time for others on this machine
        }
      }),
    );
    const enough = until('enough is accepted', () => accepted() >= ACCEPTED, WITHIN_MS);
    await enough.finally(() => {
      isEnough = true;
    });
    await flood;
    // The first window of each worker may have begun before the flood.
    const windows = Math.floor((performance.now() - began) / 1_000) + 2;
    const found = `${accepted()} accepted in ${windows} s: ${JSON.stringify([...statuses])}`;
    t.ok(accepted() <= LIMIT * windows, found);
    t.same([...statuses.keys()].sort(), [200, 429]);
    const count = await shop.count({ sessionId: 'flood' }, 'p');
    t.equal(count, accepted(), 'what was accepted was counted, and nothing else');
  });

  await all.test(
    'a scrape of start leaves out a hanging worker, and a killed worker is started again',
    async () => {
      const all = await processesOf(dir);
      const victim = all.find(({ title }) => /^wishmeter serve/.test(title))?.pid ?? 0;
      process.kill(victim, 'SIGSTOP');
      // Some scrapes reach the hanging worker. Within a second of the last scrape a worker repeats it.
      const withoutOne = async () => {
        if (workersIn(await scrape()).length !== WORKERS.length - 1) throw new Error('an older one');
        return true;
      };
      await until('a worker answers, and leaves out the one that hangs', async () => {
        const scrapes = Array.from({ length: 8 }, withoutOne);
        return await Promise.any([...scrapes, sleep(1_500, false)]).catch(() => false);
      });
      process.kill(victim, 'SIGKILL');
      const isWhole = async () => workersIn(await scrape().catch(() => '')).length === WORKERS.length;
      await until('it is started again, under its name', isWhole);
    },
  );

  await all.test('each killed child of start is started again, and nothing is lost', async (t) => {
    const identity = { sessionId: 'killed' };
    const isDone = (asking: Promise<unknown>) => asking.then(() => true).catch(() => false);
    let events = 0;
    for (const title of CHILDREN) {
      await killAndAwaitNext(dir, title);
      await until(`served again after ${title}`, () => isDone(shop.visit(identity, `after ${title}`)));
      await until('an event is taken', () => isDone(shop.event(identity)));
      events += 1;
      await until(`${events} events in ClickHouse after ${title}`, async () => {
        const count = await sql(clickhouseUrl, 'SELECT count() FROM events').catch(() => '');
        return Number(count) >= events;
      });
      t.equal(Number(await sql(clickhouseUrl, 'SELECT count() FROM events')), events, `${title}`);
    }
    await until('all workers are reached at the address again', async () => {
      await visit('s');
      return visitsIn(await scrape()).every((count) => count > 0);
    });
    await killAndAwaitNext(dir, /^wishmeter dashboard/);
    const isShown = async () => (await fetch(dashboardUrl).catch(() => undefined))?.ok;
    await until('the dashboard is shown again', isShown);
  });

  await all.test(
    'backup works while start runs, and restore into its folder is refused',
    SCRIPT,
    async (t) => {
      const screen = await onTerminal(t, `backup ${backup}`, { DATA_DIR: dir }).ended();
      t.match(screen, /Redis, names of keys: \d/);
      t.match(screen, /read back and whole/);
      const busy = await wishmeter({ args: ['restore', backup], env: { DATA_DIR: dir } });
      t.match(busy.stderr, /Another `wishmeter start`/);
    },
  );

  await all.test('start stops its children in the order that loses nothing, and logs no key', async (t) => {
    t.match(key, /^sk_[\w-]{43}$/, 'a key was made');
    for (let i = 0; i < 3; i++) await shop.visit(GUEST);
    await shop.event(GUEST);
    const workers = (await processesOf(dir)).filter(({ title }) => title.startsWith('wishmeter serve'));
    t.equal(workers.length, WORKERS.length);
    const { code, signal, stdout, stderr } = await first.stop();
    t.same({ code, signal }, { code: 0, signal: null });
    t.equal(stdout.match(/"msg":"ready"/g)?.length, 1, 'one ready line');
    const lines = logLines(stdout);
    const stopped = lines.flatMap(({ msg, child }) => (msg === 'child stopped' ? [child] : []));
    t.same(stopped.slice(0, 2).sort(), ['serve 1', 'serve 2']);
    t.same(stopped.slice(2), ['dashboard', 'flush', 'deliver', 'clickhouse', 'redis']);
    t.notMatch(stdout + stderr, key);
    t.same(await processesOf(dir), []);
  });

  await all.test(
    'of two starts in a restored folder only one runs, and has the backed-up data',
    async (t) => {
      const restored = join(backup, '../restored');
      const { code, stderr } = await wishmeter({ args: ['restore', backup], env: { DATA_DIR: restored } });
      t.same({ code, stderr }, { code: 0, stderr: '' });
      await nothingLeft(restored);
      const rivals = [1, 2].map(() => spawnWishmeter({ args: ['start'], env: startSettings(restored) }));
      all.teardown(async () => {
        for (const { child } of rivals) child.kill('SIGKILL');
        await nothingLeft(restored);
      });
      const readyLine = (rival: Running) => logLines(rival.stdout()).find(({ msg }) => msg === 'ready');
      const winner = await until('one is ready', () => rivals.find(readyLine));
      const loser = rivals.find((rival) => rival !== winner) as Running;
      t.match(await loser.ended, { code: 1, stderr: new RegExp(`\\(pid ${winner.child.pid}\\) uses`) });
      const redises = (await processesOf(restored)).filter(({ title }) => REDIS.test(title));
      t.equal(redises.length, 1, JSON.stringify(redises));
      const { url, clickhouseUrl } = readyLine(winner) as unknown as Started;
      t.equal(await shopAt(url, await apiKey(restored)).count({ sessionId: 'killed' }, `after ${REDIS}`), 1);
      await until('its events are there, once', async () => {
        return (await sql(clickhouseUrl, 'SELECT count() FROM events')) === String(CHILDREN.length);
      });
      // Its children end by themselves, flush last: it tries the lost Redis for ten seconds. Other tests run
      // meanwhile.
      winner.child.kill('SIGKILL');
    },
  );

  await all.test('a start that fails says why in one sentence, and leaves no process', async (t) => {
    const port = await listen(t, createServer());
    const cases: [env: NodeJS.ProcessEnv, sentence: RegExp][] = [
      [{ PORT: String(port) }, /Port \d+ is taken; .*PORT/],
      [{ CLICKHOUSE_URL: 'http://127.0.0.1:1' }, /ClickHouse/],
    ];
    for (const [env, sentence] of cases) {
      const dir = await tempDir(t);
      const { code, stderr } = await wishmeter({ args: ['start'], env: { ...startSettings(dir), ...env } });
      t.equal(code, 1, String(sentence));
      t.match(failureIn(stderr), sentence);
      t.match(failureIn(stderr), /^[^\n]+$/, 'one sentence');
      await nothingLeft(dir);
    }
  });

  await all.test(
    'start on a terminal has the old data and a new password, and the commands of its banner work',
    SHELL,
    async (t) => {
      const { screen, ctrlC, ended } = onTerminal(t, 'start', startSettings(dir));
      await until('the banner', () => screen().includes('Ctrl-C'));
      t.match(screen(), key);
      t.not(await password(), firstPassword);
      t.notMatch(screen(), /^\{/m, 'no log lines');
      const lines = screen()
        .split('\n')
        .filter((line) => /^ {2}(curl|.*npx wishmeter sql)/.test(line));
      t.equal(lines.length, 4, 'three curl lines and one of SQL');
      const answers: string[] = [];
      for (const line of lines.slice(0, 3)) answers.push(await shell(line));
      t.match(answers, [/"productHandle":"red-shoe"/, /"count":4/, /"profileId"/]);
      const line = (lines[3] as string).replace('npx wishmeter', `${process.execPath} ${MAIN}`);
      const cwd = await tempDir(t);
      await mkdir(join(cwd, 'data', 'clickhouse'), { recursive: true });
      writeServiceUrl(join(cwd, 'data', 'clickhouse'), 'of-another', 1);
      await until('the event is in ClickHouse', async () => (await shell(line, cwd)).includes('1001'));

      const flush = await until('flush is there', () => findProcess(dir, /^wishmeter flush/));
      process.kill(flush.pid, 'SIGSTOP');
      ctrlC();
      await until('serve has stopped', async () => !(await findProcess(dir, /^wishmeter serve/)));
      ctrlC();
      t.match(await ended(130), /Stopping/, 'not 0, as when all have stopped in order');
      await nothingLeft(dir); // guards check once a second
    },
  );

  await all.test('a signal during the start stops it in order', async (t) => {
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

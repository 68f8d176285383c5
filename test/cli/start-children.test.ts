// The children of one `start`: a scrape has the figures of every worker, a child that hangs or dies is started again, keeps
// its address, and loses nothing that was acknowledged; and RATE_LIMIT is of all workers, not of each.

import { Agent } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { putMigrated } from '../harness/clickhouse.js';
import { needsProc } from '../harness/needs.js';
import { ask } from './client.js';
import { processesOf } from './processes.js';
import { apiKey, killAndAwaitNext, shopAt, sql, started } from './started.js';
import { tempDir, until } from './wishmeter.js';

const WORKERS = ['1', '2', '3'];
const CHILDREN = [
  /^wishmeter serve/,
  /^wishmeter flush/,
  /^wishmeter clickhouse/,
  /^\S*(redis|valkey)-server/,
];

/** Samples of a metric by the labels as they are written. */
function samples(scrape: string, name: string): Map<string, number> {
  const lines = scrape.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return new Map(Array.from(lines, ([, labels = '', value]) => [labels, Number(value)]));
}

const LIMIT = 30;
const CONNECTIONS = 24;
/** So many that a worker which accepted the whole limit would be noticed. */
const ACCEPTED = 4 * LIMIT;
const WITHIN_MS = 120_000;
/** The address of the caller that floods: others are counted by themselves. */
const FLOODER = '127.0.0.2';

t.test('children of a start', needsProc(), async (t) => {
  const dir = await tempDir(t);
  await putMigrated(join(dir, 'clickhouse'), 'wishmeter');
  const env = { WORKERS: String(WORKERS.length), RATE_LIMIT: String(LIMIT) };
  const { url, clickhouseUrl, dashboardUrl, stop } = await started(t, dir, env);
  const port = Number(new URL(url).port);
  const shop = shopAt(url, await apiKey(dir));

  /** On a connection of its own, which may reach any worker, where it is not said otherwise. */
  const visit = async (sessionId: string, how: { agent?: Agent; from?: string } = {}) => {
    const body = JSON.stringify({ identity: { sessionId }, productHandle: 'p' });
    return (await ask(port, 'POST', '/product/visit', { body, ...how })).status ?? 0;
  };
  const scrape = async () => (await ask(port, 'GET', '/metrics')).body;
  const workersIn = (text: string) => [...samples(text, 'process_start_time_seconds').keys()];
  const visitsIn = (text: string) =>
    WORKERS.map((worker) => {
      const labels = `worker="${worker}",operation="post /product/visit",status="200"`;
      return samples(text, 'wishmeter_http_answers_total').get(labels) ?? 0;
    });

  await t.test('a scrape shows the figures of all workers, each as its own', async (t) => {
    // Each from another address, since one worker alone accepts less than LIMIT.
    for (let i = 0; i < LIMIT / 2; i++) t.equal(await visit('s', { from: `127.0.1.${i + 1}` }), 200);
    const scrapes = await Promise.all(Array.from({ length: 20 }, scrape));
    for (const text of scrapes) {
      t.equal(
        visitsIn(text).reduce((sum, count) => sum + count),
        LIMIT / 2,
      );
      t.same(
        workersIn(text),
        WORKERS.map((worker) => `worker="${worker}"`),
      );
      t.same([...samples(text, 'wishmeter_redis_up')], [['', 1]], 'what is in Redis belongs to no worker');
      t.same(
        [...samples(text, 'wishmeter_stream_pending_events')],
        [['stream="0"', 0]],
        'also beside other scrapes',
      );
      t.equal(text.match(/^# TYPE wishmeter_http_answers_total /gm)?.length, 1);
    }
  });

  await t.test('a caller that floods all workers gets RATE_LIMIT', async (t) => {
    // Connections are spread over the workers, and each stays with its own.
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
          await sleep(5); // far more than the limit, and time for others on this machine
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
    t.ok(
      accepted() <= LIMIT * windows,
      `${accepted()} accepted in ${windows} s: ${JSON.stringify([...statuses])}`,
    );
    t.same([...statuses.keys()].sort(), [200, 429]);
    const count = await shop.count({ sessionId: 'flood' }, 'p');
    t.equal(count, accepted(), 'what was accepted was counted, and nothing else');
  });

  await t.test('a scrape leaves out a worker that hangs; one that is killed is started again', async () => {
    const all = await processesOf(dir);
    const victim = all.find(({ title }) => /^wishmeter serve/.test(title))?.pid ?? 0;
    process.kill(victim, 'SIGSTOP');
    // Some scrapes reach the one that hangs. For a second after the last scrape a worker shows that one again.
    const withoutOne = async () => {
      if (workersIn(await scrape()).length !== WORKERS.length - 1) throw new Error('an older one');
      return true;
    };
    await until('a worker answers, and leaves out the one that hangs', async () => {
      const scrapes = Array.from({ length: 8 }, withoutOne);
      return await Promise.any([...scrapes, sleep(1_500, false)]).catch(() => false);
    });
    process.kill(victim, 'SIGKILL');
    await until('it is started again, under its name', async () => {
      return workersIn(await scrape().catch(() => '')).length === WORKERS.length;
    });
  });

  await t.test('each child that is killed comes back, and nothing is lost', async (t) => {
    const identity = { sessionId: 's-1' };
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
    // Connections are spread over the workers that listen at the address.
    await until('all workers are reached at the address again', async () => {
      await visit('s');
      return visitsIn(await scrape()).every((count) => count > 0);
    });
    await killAndAwaitNext(dir, /^wishmeter dashboard/);
    await until(
      'the dashboard is shown again',
      async () => (await fetch(dashboardUrl).catch(() => undefined))?.ok,
    );
  });

  t.equal((await stop()).code, 0);
});

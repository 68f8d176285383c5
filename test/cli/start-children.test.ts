// The children of one `start`: a scrape has the figures of every worker, a child that hangs or dies is started again, keeps
// its address, and loses nothing that was acknowledged; and RATE_LIMIT is of all workers, not of each.

import { Agent, type RequestOptions, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { putMigrated } from '../harness/clickhouse.js';
import { needsProc } from '../harness/needs.js';
import { processesOf } from './processes.js';
import { apiKey, killAndAwaitNext, shopAt, sql, started } from './started.js';
import { tempDir, until } from './wishmeter.js';

const CHILDREN = [
  /^wishmeter serve/,
  /^wishmeter flush/,
  /^wishmeter clickhouse/,
  /^\S*(redis|valkey)-server/,
];

const JSON_TYPE = { 'content-type': 'application/json' };
const visitOf = (sessionId: string) => JSON.stringify({ identity: { sessionId }, productHandle: 'p' });

async function migratedDir(t: Test): Promise<string> {
  const dir = await tempDir(t);
  await putMigrated(join(dir, 'clickhouse'), 'wishmeter');
  return dir;
}

/** Each on a connection of its own (fetch keeps them), which may reach any worker. */
function ask(url: string, options: RequestOptions = {}, body = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    request(url, { ...options, agent: false }, (answer) => {
      if (answer.statusCode === 200) text(answer).then(resolve, reject);
      else reject(new Error(`${url}: ${answer.statusCode}`));
    })
      .on('error', reject)
      .end(body);
  });
}

/** Samples of a metric by the labels as they are written. */
function samples(scrape: string, name: string): Map<string, number> {
  const lines = scrape.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return new Map(Array.from(lines, ([, labels = '', value]) => [labels, Number(value)]));
}

t.test('children of a start', needsProc(), async (t) => {
  const dir = await migratedDir(t);
  const { url, clickhouseUrl, dashboardUrl, stop } = await started(t, dir, { WORKERS: '2' });

  const visit = () => ask(`${url}/product/visit`, { method: 'POST', headers: JSON_TYPE }, visitOf('s'));
  const visitsOf = (scrape: string) =>
    ['1', '2'].map((worker) =>
      samples(scrape, 'wishmeter_http_answers_total').get(
        `worker="${worker}",operation="post /product/visit",status="200"`,
      ),
    );

  await t.test('a scrape shows the figures of all workers, each as its own', async (t) => {
    for (let i = 0; i < 30; i++) await visit();
    const scrapes = await Promise.all(Array.from({ length: 20 }, () => ask(`${url}/metrics`)));
    for (const scrape of scrapes) {
      const [one = 0, two = 0] = visitsOf(scrape);
      t.equal(one + two, 30);
      t.same([...samples(scrape, 'process_start_time_seconds').keys()], ['worker="1"', 'worker="2"']);
      t.same([...samples(scrape, 'wishmeter_redis_up')], [['', 1]], 'what is in Redis belongs to no worker');
      t.same(
        [...samples(scrape, 'wishmeter_stream_pending_events')],
        [['stream="0"', 0]],
        'also beside other scrapes',
      );
      t.equal(scrape.match(/^# TYPE wishmeter_http_answers_total /gm)?.length, 1);
    }
  });

  await t.test('a scrape leaves out a worker that hangs; one that is killed is started again', async () => {
    const workers = async () =>
      (await processesOf(dir)).filter(({ title }) => /^wishmeter serve/.test(title));
    const [victim] = await workers();
    process.kill(victim?.pid ?? 0, 'SIGSTOP');
    // For a second after the last scrape a worker shows that one again.
    await until('a worker that answers, and leaves out one that hangs', async () => {
      const scrape = await ask(`${url}/metrics`, { signal: AbortSignal.timeout(2_000) }).catch(() => '');
      return samples(scrape, 'process_start_time_seconds').size === 1;
    });
    process.kill(victim?.pid ?? 0, 'SIGKILL');
    await until('it is started again, under its name', async () => {
      const scrape = await ask(`${url}/metrics`).catch(() => '');
      return samples(scrape, 'process_start_time_seconds').size === 2;
    });
  });

  await t.test('each child that is killed comes back, and nothing is lost', async (t) => {
    const shop = shopAt(url, await apiKey(dir));
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
    await until('both workers are reached at the address again', async () => {
      await visit();
      return visitsOf(await ask(`${url}/metrics`)).every((count) => (count ?? 0) > 0);
    });
    await killAndAwaitNext(dir, /^wishmeter dashboard/);
    await until(
      'the dashboard is shown again',
      async () => (await fetch(dashboardUrl).catch(() => undefined))?.ok,
    );
  });

  t.equal((await stop()).code, 0);
});

const LIMIT = 30;
const CONNECTIONS = 24;
/** After these what was too much in the first second is paid back. */
const ACCEPTED = 4 * LIMIT;
const WITHIN_MS = 120_000;

/** The second of the machine's monotonic clock, by which the workers count. */
const second = () => Number(process.hrtime.bigint() / 1_000_000_000n);

t.test('a caller that floods three workers gets RATE_LIMIT, within a tenth', async (t) => {
  const dir = await migratedDir(t);
  const { url, stop } = await started(t, dir, { WORKERS: '3', RATE_LIMIT: String(LIMIT) });
  // Connections are spread over the workers, and each stays with its own.
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  t.teardown(() => agent.destroy());
  const statuses = new Map<number, number>();
  const visit = () =>
    new Promise<void>((resolve, reject) => {
      request(`${url}/product/visit`, { method: 'POST', headers: JSON_TYPE, agent }, (answer) => {
        const status = answer.statusCode ?? 0;
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        answer.resume().on('end', resolve).on('error', reject);
      })
        .on('error', reject)
        .end(visitOf('flood'));
    });

  const began = second();
  const accepted = () => statuses.get(200) ?? 0;
  const seconds = () => second() - began + 1;
  const isWithin = () => accepted() <= LIMIT * seconds() * 1.1;
  let isEnough = false;
  const flood = Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      while (!isEnough) {
        await visit();
        await sleep(5); // far more than the limit, and time for others on this machine
      }
    }),
  );
  const enough = until(
    'what is accepted is within the limit',
    () => accepted() >= ACCEPTED && isWithin(),
    WITHIN_MS,
  );
  await enough.finally(() => {
    isEnough = true;
  });
  await flood;
  t.ok(isWithin(), `${accepted()} accepted in ${seconds()} s: ${JSON.stringify([...statuses])}`);
  t.same([...statuses.keys()].sort(), [200, 429]);

  const count = await shopAt(url, await apiKey(dir)).count({ sessionId: 'flood' }, 'p');
  t.equal(count, accepted(), 'what was accepted was counted, and nothing else');
  t.equal((await stop()).code, 0);
});

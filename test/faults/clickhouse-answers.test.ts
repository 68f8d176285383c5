// A ClickHouse that is away, loses answers, answers half or with errors, or is killed: each event is shown once, and none is
// given up as a dead letter.

import { watch } from 'node:fs';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import t from 'tap';
import { tempDir } from '../cli/wishmeter.js';
import { appendEvents, eventRows, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { exception, type Spoiling, startClickHouseProxy } from './clickhouse-proxy.js';
import { FULL } from './service.js';

const pipelines = await openPipelines(t, await startTestRedis(t));
const { redis } = pipelines;

const JANUARY = '2026-01-31T23:59:59.999Z';
const FEBRUARY = '2026-02-01T00:00:00.000Z';
const CLOSES = 'nothing: the connection closes';
const PASS: Spoiling = { forward: true, answer: 'as it is' };
const events = (n: number, occurred_at: string) => eventRows(n, { occurred_at });

const failure = (code: number, text: string, status = 500): Spoiling['answer'] => ({
  status,
  ...(status === 200 ? {} : { code }),
  body: exception(code, text, 'NAME'),
});
/** It is not known whether the rows are there. */
const UNKNOWN: readonly Spoiling['answer'][] = [
  CLOSES,
  { status: 504, body: '<h1>504 Gateway Time-out</h1>' },
  failure(241, 'Memory limit (total) exceeded', 200),
  failure(241, 'Memory limit (total) exceeded'),
  failure(1001, 'std::exception'),
  failure(319, 'Unknown status of insert'),
  failure(159, 'Timeout exceeded: elapsed 30 s'),
  'half a status line',
  'a body that ends early',
];
const REFUSALS = [failure(252, 'Too many parts (3000)'), failure(202, 'Too many simultaneous queries')];
const OTHERS = [
  'nothing: the connection stays' as const,
  ...[243, 242, 999].map((code) => failure(code, 'Not now')),
];

/** What analysts see. */
async function counts({ ask }: Pick<Pipeline, 'ask'>) {
  const [found] = await ask(
    'SELECT toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids FROM events',
  );
  return found;
}

t.test(
  'rows that are inserted twice are shown once before parts merge, and stored once afterwards',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
    const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
    await pipeline.clickhouse.command({ query: 'SYSTEM STOP MERGES events_stored' });
    const rows = [...events(100, JANUARY), ...events(100, FEBRUARY)];
    await appendEvents(redis, pipeline.keys, 0, rows);
    proxy.spoil({ forward: true, answer: CLOSES });
    const flusher = pipeline.flusher({ clickhouse });
    await pipeline.drained();
    await flusher.close();
    t.same(await pipeline.counts(), { stored: 400, shown: 200, ids: 200 });
    const adds = 'SELECT toUInt32(count()) AS n FROM steps_stored FINAL';
    t.same(
      await pipeline.ask(adds),
      await pipeline.ask("SELECT toUInt32(countIf(product_id != '')) AS n FROM events"),
    );
    await pipeline.clickhouse.command({ query: 'SYSTEM START MERGES events_stored' });
    await pipeline.clickhouse.command({ query: 'OPTIMIZE TABLE events_stored FINAL' });
    t.same(await pipeline.counts(), { stored: 200, shown: 200, ids: 200 });
  },
);

t.test('whatever an insert is answered, it is tried again, and each failure is counted', async (t) => {
  const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
  const pipeline = await pipelines.fresh();
  const metrics = new Registry();
  const clickhouse = createClient({
    url: proxy.url,
    database: pipeline.database,
    request_timeout: 1_000, // the program's own is a minute; an insert that takes longer on a busy machine is counted
    log: { level: ClickHouseLogLevel.OFF },
  });
  t.teardown(() => clickhouse.close());
  const flusher = pipeline.flusher({ clickhouse, metrics });
  const times = FULL ? 5 : 1;
  let sent = 0;
  let spoilings = 0;
  for (const answer of [...UNKNOWN, ...REFUSALS, ...OTHERS])
    for (const forward of [true, false]) {
      for (let i = 0; i < times; i++) proxy.spoil({ forward, answer });
      spoilings += times;
      await appendEvents(redis, pipeline.keys, 0, eventRows(20));
      sent += 20;
      await pipeline.drained();
    }
  await flusher.close();
  const text = await metrics.getSingleMetricAsString('wishmeter_flush_insert_errors_total');
  const errors = [...text.matchAll(/\} (\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  t.equal(errors, spoilings + proxy.abandoned, `${proxy.abandoned} took longer than a second`);
  t.match(await pipeline.counts(), { shown: sent, ids: sent }, `${sent} events, each once`);
  t.equal(await redis.xlen(pipeline.keys.eventsDead(0)), 0, 'no dead letter');
});

t.test('a batch that is sent again is what it was, although the next one has been read', async (t) => {
  const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
  const pipeline = await pipelines.fresh(12); // each batch is up to 4 MB
  const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
  await appendEvents(redis, pipeline.keys, 0, eventRows(900, { payload: { note: 'x'.repeat(16_000) } }), 20);
  for (let batch = 0; batch < 3; batch++)
    for (const spoiling of [{ forward: false, answer: CLOSES } as const, PASS]) proxy.spoil(spoiling);
  const flusher = pipeline.flusher({ clickhouse });
  await pipeline.drained();
  await flusher.close();
  t.equal(proxy.inserts, 7, 'four batches, three of them sent twice');
  t.same(await pipeline.counts(), { stored: 900, shown: 900, ids: 900 });
});

t.test(
  'while ClickHouse is away events wait in Redis, and each is stored once when it is back',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const proxy = await startProxy(t, pipelines.clickhouseUrl);
    const url = new URL(pipelines.clickhouseUrl);
    url.port = String(proxy.port);
    const clickhouse = connectToClickHouse(t, url.href, pipeline.database);
    const metrics = new Registry();
    const flusher = pipeline.flusher({ clickhouse, metrics });
    await appendEvents(redis, pipeline.keys, 0, eventRows(100));
    await pipeline.drained();
    proxy.retarget('http://127.0.0.1:1');
    proxy.dropAll();
    await appendEvents(redis, pipeline.keys, 0, eventRows(100));
    const failed = async () =>
      (await metrics.getSingleMetric('wishmeter_flush_insert_errors_total')?.get())?.values[0]?.value ?? 0;
    await until('inserts fail', async () => Number(await failed()) > 1);
    await appendEvents(redis, pipeline.keys, 0, eventRows(100));
    t.equal(await redis.hget(pipeline.keys.eventsState(0), 'events'), '200');
    proxy.retarget(pipelines.clickhouseUrl);
    await pipeline.drained();
    await flusher.close();
    t.match(await pipeline.counts(), { shown: 300, ids: 300 });
  },
);

t.test('ClickHouse is killed while it stores: every event is there', async (t) => {
  const dir = await tempDir(t);
  let server = await startTestClickHouse(t, { dir, restart: false, databases: ['shop'] });
  const { url } = server;
  const clickhouse = connectToClickHouse(t, url, 'shop');
  const ask: Pipeline['ask'] = async (query) =>
    await (await clickhouse.query({ query, format: 'JSONEachRow' })).json();
  const pipeline = await pipelines.fresh();
  const flusher = pipeline.flusher({ clickhouse });
  await appendEvents(redis, pipeline.keys, 0, events(1, FEBRUARY));
  await pipeline.drained();
  const [table] = await ask<{ path: string }>(
    "SELECT data_paths[1] AS path FROM system.tables WHERE name = 'events_stored'",
  );

  const kills = FULL ? 60 : 1;
  for (let kill = 0; kill < kills; kill++) {
    const watcher = watch(table?.path ?? '', () => {
      if (server.pid !== undefined) process.kill(server.pid, 'SIGKILL');
    });
    await appendEvents(redis, pipeline.keys, 0, events(100, FEBRUARY));
    await until('it is killed', () => server.pid === undefined);
    watcher.close();
    server = await startTestClickHouse(t, { dir, port: Number(new URL(url).port), restart: false });
    await pipeline.drained();
  }
  await flusher.close();
  t.match(await counts({ ask }), { shown: 1 + 100 * kills, ids: 1 + 100 * kills });
});

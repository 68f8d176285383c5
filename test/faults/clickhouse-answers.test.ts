// A ClickHouse that is away, loses answers, answers half or with errors, or is killed: each event is there once, and none is
// given up as a dead letter.
//
// ClickHouse writes a block's token to the table's deduplication log before it commits the part. Killed in between, it
// takes the next insert under that token for a duplicate, answers 200, and the rows are nowhere. Here the log gets the
// batch's token by an insert of something else, so that no test depends on the moment of a kill; but for the last one, which
// kills ClickHouse as soon as the log changes. About one kill in five leaves a token without its rows.

import { watch } from 'node:fs';
import { join } from 'node:path';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { FencedStream } from '../../src/flush/fenced-stream.js';
import { decodeManifest, manifestOf } from '../../src/flush/manifest.js';
import { cutBatch } from '../../src/flush/reader.js';
import { tempDir } from '../cli/wishmeter.js';
import {
  appendEvents,
  appendLines,
  type EventRow,
  eventRow,
  eventRows,
  lineOf,
  until,
} from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { type ClickHouseProxy, exception, type Spoiling, startClickHouseProxy } from './clickhouse-proxy.js';
import { FULL } from './service.js';

const pipelines = await openPipelines(t, await startTestRedis(t));
const { redis } = pipelines;

const never = new AbortController().signal;
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

/** Has the table remember the token of the batch in flight, for January: its part there is then a duplicate. */
async function rememberToken(pipeline: Pipeline, half = ''): Promise<void> {
  const manifest = await redis.hget(pipeline.keys.eventsState(0), 'manifest');
  const { token } = decodeManifest(manifest ?? '');
  const other = lineOf(eventRow({ occurred_at: JANUARY, profile_id: 'other' }));
  await insertEvents(pipeline.clickhouse, Buffer.from(other), `${token}${half}`, never);
}

/** What a flusher leaves that is killed with a batch in its hands. */
async function leaveBatch(pipeline: Pipeline): Promise<void> {
  const fenced = new FencedStream(redis, pipeline.keys, 0);
  const claim = await fenced.claim('killed', undefined, 0);
  const batch = await cutBatch(redis, pipeline.keys.events(0));
  if (claim === undefined || batch === undefined) throw new Error('no batch');
  await fenced.prepare(claim.epoch, manifestOf(batch));
}

/** What analysts see, without what `rememberToken` has put there; and what is stored. */
async function counts({ ask }: Pick<Pipeline, 'ask'>) {
  const [found] = await ask(`SELECT toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids,
    toUInt32((SELECT count() FROM events_stored WHERE profile_id != 'other')) AS stored
    FROM events WHERE profile_id != 'other'`);
  return found;
}

/** Rows that are there twice stay so. */
const stopMerges = (pipeline: Pipeline) =>
  pipeline.clickhouse.command({ query: 'SYSTEM STOP MERGES events_stored' });

/** A flusher whose table remembers the token of each batch by the time of its first insert, through a proxy. */
async function startForgetful(t: Test): Promise<{ pipeline: Pipeline; proxy: ClickHouseProxy }> {
  const pipeline = await pipelines.fresh();
  await stopMerges(pipeline);
  const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
  const clickhouse = connectToClickHouse(t, proxy.url, pipeline.database);
  const flusher = pipeline.flusher({
    clickhouse,
    onStep: async (step) => {
      if (step === 'prepared') await rememberToken(pipeline);
    },
  });
  t.teardown(() => flusher.close());
  return { pipeline, proxy };
}

/** A batch whose first inserts are spoiled. */
async function spoiled(
  t: Test,
  { pipeline, proxy }: Awaited<ReturnType<typeof startForgetful>>,
  rows: readonly EventRow[],
  ...spoilings: readonly Spoiling[]
) {
  const before = { inserts: proxy.inserts, questions: proxy.questions };
  for (const spoiling of spoilings) proxy.spoil(spoiling);
  await appendEvents(redis, pipeline.keys, 0, rows, rows.length);
  await pipeline.drained();
  t.equal(proxy.waiting, 0, 'an insert came for every spoiled answer');
  return { inserts: proxy.inserts - before.inserts, questions: proxy.questions - before.questions };
}

t.test('where the repeat of a lost insert is taken for a duplicate every event is there', async (t) => {
  const all = await startForgetful(t);
  let sent = 0;
  for (const answer of UNKNOWN) {
    await spoiled(t, all, events(200, JANUARY), { forward: false, answer });
    sent += 200;
    t.same(await counts(all.pipeline), { shown: sent, ids: sent, stored: sent }, JSON.stringify(answer));
  }
  // The insert that mends it is lost in turn.
  for (const forward of [false, true]) {
    const lost = { forward, answer: CLOSES } as const;
    await spoiled(t, all, events(200, JANUARY), { forward: false, answer: CLOSES }, PASS, lost);
    sent += 200;
    t.same(await counts(all.pipeline), { shown: sent, ids: sent, stored: sent }, `forwarded: ${forward}`);
  }
});

t.test('a block of two months of which one is taken for a duplicate: each event is shown once', async (t) => {
  const all = await startForgetful(t);
  const rows = [...events(100, JANUARY), ...events(100, FEBRUARY)];
  await spoiled(t, all, rows, { forward: false, answer: CLOSES });
  t.same(await counts(all.pipeline), { shown: 200, ids: 200, stored: 300 }, 'February is stored twice');
  await all.pipeline.clickhouse.command({ query: 'SYSTEM START MERGES events_stored' });
  await all.pipeline.clickhouse.command({ query: 'OPTIMIZE TABLE events_stored FINAL' });
  t.same(await counts(all.pipeline), { shown: 200, ids: 200, stored: 200 }, 'until ClickHouse merges');
});

t.test('rows are looked for after a failure, once, and not where an insert is taken at once', async (t) => {
  const all = await startForgetful(t);
  const refused = REFUSALS.map((answer) => ({ forward: false, answer }));
  const cases = [
    ['a repeat that is no duplicate', [{ forward: true, answer: CLOSES }], { inserts: 2, questions: 1 }],
    ['an insert that is taken at once', [], { inserts: 1, questions: 0 }],
    ['what was refused twice', refused, { inserts: 3, questions: 1 }],
  ] as const;
  for (const [what, spoilings, expected] of cases)
    t.same(await spoiled(t, all, events(200, FEBRUARY), ...spoilings), expected, what);
  t.same(await counts(all.pipeline), { shown: 600, ids: 600, stored: 600 });
});

t.test('a flusher is killed, and what its successor replays is taken for a duplicate', async (t) => {
  const pipeline = await pipelines.fresh();
  await stopMerges(pipeline);
  await appendEvents(redis, pipeline.keys, 0, [...events(100, JANUARY), ...events(100, FEBRUARY)]);
  await leaveBatch(pipeline);
  await rememberToken(pipeline);
  const flusher = pipeline.flusher({ owner: 'killed' });
  await pipeline.drained();
  await flusher.close();
  t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 300 });
});

t.test('a replay with a bad line, and one whose lines have no id, come to an end', async (t) => {
  const pipeline = await pipelines.fresh();
  await stopMerges(pipeline);
  const bad = lineOf(eventRow()).replace('"type":"add"', '"type":"add","quantity":"two"');
  const nameless = lineOf(eventRow({ occurred_at: JANUARY })).replace(/"event_id":"[^"]*",/, '');
  const good = events(20, JANUARY).map(lineOf);
  await appendLines(redis, pipeline.keys, 0, [...good.slice(0, 10), bad, nameless, ...good.slice(10)]);
  await leaveBatch(pipeline);
  for (const half of ['.0', '.1']) await rememberToken(pipeline, half);
  const flusher = pipeline.flusher({ owner: 'killed' });
  await pipeline.drained();
  await flusher.close();
  t.equal(await redis.xlen(pipeline.keys.eventsDead(0)), 1);
  t.match(await counts(pipeline), { shown: 21, ids: 21 });
});

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
    t.same(await pipeline.counts(), { shown: 300, ids: 300, stored: 300 });
  },
);

t.test(
  'ClickHouse is killed whenever it writes to its deduplication log: every event is there',
  async (t) => {
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
      const watcher = watch(join(table?.path ?? '', 'deduplication_logs'), () => {
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
  },
);

// ClickHouse writes a block's token to the table's deduplication log before it commits the part. Killed in between, it
// takes the next insert under that token for a duplicate, answers 200, and the rows are nowhere. Here the log gets the
// batch's token by an insert of something else, so that no test depends on the moment of a kill; but for the last one, which
// kills ClickHouse as soon as the log changes. About one kill in five leaves a token without its rows.

import { watch } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { decodeManifest, manifestOf } from '../../src/flush/manifest.js';
import { cutBatch } from '../../src/flush/reader.js';
import { Shard } from '../../src/flush/shard.js';
import { appendEvents, appendLines, type EventRow, eventRow, lineOf, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { exception, type Spoiling, startClickHouseProxy } from './clickhouse-proxy.js';
import { FULL } from './service.js';

const pipelines = await openPipelines(await startTestRedis());
t.teardown(() => pipelines.close());
const { redis } = pipelines;

const never = new AbortController().signal;
const JANUARY = '2026-01-31T23:59:59.999Z';
const FEBRUARY = '2026-02-01T00:00:00.000Z';
const PASS: Spoiling = { forward: true, answer: 'as it is' };
const events = (n: number, occurred_at: string) => Array.from({ length: n }, () => eventRow({ occurred_at }));

/** Has the table remember the token of the batch in flight, for January: its part there is then a duplicate. */
async function rememberToken(pipeline: Pipeline, half = ''): Promise<void> {
  const manifest = await redis.hget(pipeline.keys.eventsState(0), 'manifest');
  const { token } = decodeManifest(manifest ?? '');
  const other = lineOf(eventRow({ occurred_at: JANUARY, profile_id: 'other' }));
  await insertEvents(pipeline.clickhouse, Buffer.from(other), `${token}${half}`, never);
}

/** What a flusher leaves that is killed with a batch in its hands. */
async function leaveBatch(pipeline: Pipeline): Promise<void> {
  const shard = new Shard(redis, pipeline.keys, 0);
  const claim = await shard.claim('killed', undefined, 0);
  const batch = await cutBatch(redis, pipeline.keys.events(0));
  if (claim === undefined || batch === undefined) throw new Error('no batch');
  await shard.prepare(claim.epoch, manifestOf(batch));
}

/** What analysts see, without what `rememberToken` has put there; and what is stored. */
async function counts({ clickhouse }: Pick<Pipeline, 'clickhouse'>) {
  const query = `SELECT toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids,
    toUInt32((SELECT count() FROM events_stored WHERE profile_id != 'other')) AS stored
    FROM events WHERE profile_id != 'other'`;
  const answer = await clickhouse.query({ query, format: 'JSONEachRow' });
  return (await answer.json<{ shown: number; ids: number; stored: number }>())[0];
}

/** Rows that are there twice stay so. */
const stopMerges = (pipeline: Pipeline) =>
  pipeline.clickhouse.command({ query: 'SYSTEM STOP MERGES events_stored' });

/** A flusher whose first inserts of its first batch are spoiled; the table remembers the batch's token by then. */
async function spoiled(t: Test, rows: readonly EventRow[], ...spoilings: readonly Spoiling[]) {
  const pipeline = await pipelines.fresh();
  await stopMerges(pipeline);
  const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
  const clickhouse = createClickHouse(proxy.url, pipeline.database);
  t.teardown(() => clickhouse.close());
  await appendEvents(redis, pipeline.keys, 0, rows);
  for (const spoiling of spoilings) proxy.spoil(spoiling);
  const flusher = pipeline.flusher({
    clickhouse,
    onStep: async (step) => {
      if (step === 'prepared') await rememberToken(pipeline);
    },
  });
  await pipeline.drained();
  await flusher.close();
  t.equal(proxy.waiting, 0, 'every spoiling met its insert');
  return { pipeline, proxy };
}

const UNKNOWN: readonly (readonly [what: string, answer: Spoiling['answer']])[] = [
  ['the connection closes', 'nothing: the connection closes'],
  ['a gateway gives up', { status: 504, body: '<h1>504 Gateway Time-out</h1>' }],
  ['a 200 with an error', { status: 200, body: exception(241, 'Memory limit', 'MEMORY_LIMIT_EXCEEDED') }],
  ['an error of ClickHouse', { status: 500, code: 241, body: exception(241, 'Memory limit', 'MEMORY') }],
  ['an unknown error', { status: 500, code: 1001, body: exception(1001, 'rename', 'STD') }],
];
for (const [what, answer] of UNKNOWN) {
  t.test(`${what}, and the repeat is taken for a duplicate: every event is there`, async (t) => {
    const { pipeline } = await spoiled(t, events(200, JANUARY), { forward: false, answer });
    t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 200 });
  });
}

t.test('a block of two months of which one is taken for a duplicate: each event is shown once', async (t) => {
  const rows = [...events(100, JANUARY), ...events(100, FEBRUARY)];
  const { pipeline } = await spoiled(t, rows, { forward: false, answer: 'nothing: the connection closes' });
  t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 300 }, 'February is stored twice');
  await pipeline.clickhouse.command({ query: 'SYSTEM START MERGES events_stored' });
  await pipeline.clickhouse.command({ query: 'OPTIMIZE TABLE events_stored FINAL' });
  t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 200 }, 'until ClickHouse merges');
});

t.test('the insert that mends it is lost in turn: every event is there', async (t) => {
  for (const forward of [false, true]) {
    const answer = 'nothing: the connection closes';
    const spoilings = [{ forward: false, answer }, PASS, { forward, answer }] as const;
    const { pipeline } = await spoiled(t, events(200, JANUARY), ...spoilings);
    t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 200 }, `forwarded: ${forward}`);
  }
});

t.test('a repeat that is no duplicate is looked for, found, and stored once', async (t) => {
  const { pipeline, proxy } = await spoiled(t, events(200, FEBRUARY), {
    forward: true,
    answer: 'nothing: the connection closes',
  });
  t.equal(proxy.inserts, 2);
  t.equal(proxy.questions, 1);
  t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 200 });
});

t.test(
  'what ClickHouse refuses before it begins, and what it takes at once, costs no question',
  async (t) => {
    const refusals = [
      { status: 500, code: 252, body: exception(252, 'Too many parts', 'TOO_MANY_PARTS') },
      { status: 500, code: 202, body: exception(202, 'Too many queries', 'TOO_MANY_SIMULTANEOUS_QUERIES') },
    ].map((answer) => ({ forward: false, answer }));
    for (const spoilings of [[], refusals]) {
      const { pipeline, proxy } = await spoiled(t, events(200, FEBRUARY), ...spoilings);
      t.equal(proxy.inserts, spoilings.length + 1);
      t.equal(proxy.questions, 0);
      t.same(await counts(pipeline), { shown: 200, ids: 200, stored: 200 });
    }
  },
);

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

t.test(
  'ClickHouse is killed whenever it writes to its deduplication log: every event is there',
  async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'wm-killed-'));
    let server = await startTestClickHouse({ dir, restart: false, databases: ['shop'] });
    const { url } = server;
    const clickhouse = createClickHouse(url, 'shop');
    t.teardown(async () => {
      await clickhouse.close();
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    });
    const pipeline = await pipelines.fresh();
    const flusher = pipeline.flusher({ clickhouse });
    await appendEvents(redis, pipeline.keys, 0, events(1, FEBRUARY));
    await pipeline.drained();
    const tables = await clickhouse.query({
      query: "SELECT data_paths[1] AS path FROM system.tables WHERE name = 'events_stored'",
      format: 'JSONEachRow',
    });
    const [events_stored] = await tables.json<{ path: string }>();

    const kills = FULL ? 60 : 1;
    for (let kill = 0; kill < kills; kill++) {
      const watcher = watch(join(events_stored?.path ?? '', 'deduplication_logs'), () => {
        if (server.pid !== undefined) process.kill(server.pid, 'SIGKILL');
      });
      await appendEvents(redis, pipeline.keys, 0, events(100, FEBRUARY));
      await until('it is killed', () => server.pid === undefined);
      watcher.close();
      server = await startTestClickHouse({ dir, port: Number(new URL(url).port), restart: false });
      await pipeline.drained();
    }
    await flusher.close();
    t.match(await counts({ clickhouse }), { shown: 1 + 100 * kills, ids: 1 + 100 * kills });
  },
);

// Flushers that are killed and frozen at exact points, and a ClickHouse that goes away: each event is there once.
// FAULTS=full: many more kills at random moments.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { decodeManifest } from '../../src/flush/manifest.js';
import { readBatch } from '../../src/flush/reader.js';
import type { Step } from '../../src/flush/shard-flusher.js';
import { appendEvents, eventRow, pendingOf, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';
import type { ProcessSpec } from './flusher-process.js';
import { FULL } from './service.js';

const PROGRAM = new URL('./flusher-process.js', import.meta.url);
/** Where no server listens. */
const NOWHERE = 'http://127.0.0.1:1';
const events = (n: number) => Array.from({ length: n }, () => eventRow());

const pipelines = await openPipelines(await startTestRedis());
t.teardown(() => pipelines.close());
const { redis } = pipelines;

/** A flusher in a process of its own. */
function startProcess(t: Test, pipeline: Pipeline, changes: Partial<ProcessSpec> = {}): ChildProcess {
  const spec: ProcessSpec = {
    redisUrls: pipelines.redisUrls,
    prefix: pipeline.prefix,
    shards: pipeline.shards,
    clickhouseUrl: pipelines.clickhouseUrl,
    database: pipeline.database,
    owner: 'process',
    silentMs: 500,
    ...changes,
  };
  const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

const manifestOf = (pipeline: Pipeline) => redis.hget(pipeline.keys.eventsState(0), 'manifest');
const ownerOf = (pipeline: Pipeline) => redis.hget(pipeline.keys.eventsState(0), 'owner');

/** What must be true at the moment of the kill, so that the test is known to have hit its point. */
const KILLS: readonly { step: Step; stored: number; manifest: boolean; waiting: number }[] = [
  { step: 'prepared', stored: 0, manifest: true, waiting: 200 },
  { step: 'inserted', stored: 200, manifest: true, waiting: 200 },
  { step: 'finalized', stored: 200, manifest: false, waiting: 0 },
];

for (const { step, stored, manifest, waiting } of KILLS) {
  // Its own shard it has at once; another's when that one has been silent for long enough.
  for (const next of [
    { owner: 'a', silentMs: 600_000 },
    ...(manifest ? [{ owner: 'b', silentMs: 300 }] : []),
  ]) {
    t.test(`kill -9 once ${step}, then flusher ${next.owner} instead of a: each event once`, async (t) => {
      const pipeline = await pipelines.fresh();
      await appendEvents(redis, pipeline.keys, 0, events(200));
      const child = startProcess(t, pipeline, { owner: 'a', at: { step, signal: 'SIGKILL' } });
      const [, signal] = await once(child, 'exit');
      t.equal(signal, 'SIGKILL');
      t.equal((await pipeline.counts()).stored, stored);
      t.equal((await manifestOf(pipeline)) !== null, manifest);
      t.equal((await pendingOf(redis, pipeline.keys, 0)).events, waiting);

      // New events must not change the batch that is replayed.
      await appendEvents(redis, pipeline.keys, 0, events(50));
      const flusher = pipeline.flusher(next);
      await pipeline.drained();
      await flusher.close();
      t.same(await pipeline.counts(), { stored: 250, shown: 250, ids: 250 });
    });
  }
}

t.test('a flusher that is killed at random moments while events arrive stores each once', async (t) => {
  const pipeline = await pipelines.fresh(2);
  let sent = 0;
  for (let round = 0; round < (FULL ? 50 : 2); round++) {
    const child = startProcess(t, pipeline);
    await once(child, 'message');
    for (let left = 1 + Math.floor(Math.random() * 10); left > 0; left--) {
      await Promise.all([0, 1].map((shard) => appendEvents(redis, pipeline.keys, shard, events(100), 25)));
      sent += 200;
    }
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  const flusher = pipeline.flusher({ owner: 'process' });
  await pipeline.drained();
  await flusher.close();
  t.same(await pipeline.counts(), { stored: sent, shown: sent, ids: sent });
});

/** A flusher freezes with a batch in its hands, another takes over, and the first one wakes up. */
async function freezeAndTakeOver(t: Test, step: Step): Promise<void> {
  const pipeline = await pipelines.fresh();
  await appendEvents(redis, pipeline.keys, 0, events(200));
  const child = startProcess(t, pipeline, { owner: 'older', at: { step, signal: 'SIGSTOP' } });
  await until('the older one has a batch in flight', async () => (await manifestOf(pipeline)) !== null);
  const newer = pipeline.flusher({ owner: 'newer', silentMs: 500 });
  await pipeline.drained();
  await appendEvents(redis, pipeline.keys, 0, events(30));
  await pipeline.drained();
  child.kill('SIGCONT');
  await appendEvents(redis, pipeline.keys, 0, events(30));
  await pipeline.drained();
  // Awake, it stands by: it has the shard again only when the newer one releases it.
  await newer.close();
  await until('the older one owns it', async () => (await ownerOf(pipeline)) === 'older');
  await appendEvents(redis, pipeline.keys, 0, events(30));
  await pipeline.drained();
  child.kill('SIGTERM');
  t.same(await once(child, 'exit'), [0, null]);
  t.same(await pipeline.counts(), { stored: 290, shown: 290, ids: 290 });
}

for (const step of ['prepared', 'inserted'] as const) {
  t.test(`frozen once ${step} and taken over: the older is fenced off, nothing is there twice`, (t) =>
    freezeAndTakeOver(t, step),
  );
}

t.test(
  'an insert that arrives after the table has forgotten its token is stored again and shown once',
  async (t) => {
    const pipeline = await pipelines.freshDatabase();
    const { clickhouse } = pipeline;
    await appendEvents(redis, pipeline.keys, 0, events(200));
    // What an older flusher has on its way when it is taken over.
    let late: { lines: Buffer; token: string } | undefined;
    const flusher = pipeline.flusher({
      onStep: async (step) => {
        if (step !== 'prepared' || late !== undefined) return;
        const manifest = decodeManifest((await manifestOf(pipeline)) ?? '');
        const batch = await readBatch(redis, pipeline.keys.events(0), manifest);
        late = { lines: batch?.lines ?? Buffer.alloc(0), token: manifest.token };
      },
    });
    await pipeline.drained();
    await clickhouse.command({ query: 'SYSTEM STOP MERGES events_stored' });
    const never = new AbortController().signal;
    const arrive = async () =>
      await insertEvents(clickhouse, late?.lines ?? Buffer.alloc(0), late?.token ?? '', never);
    await arrive();
    t.same(await pipeline.counts(), { stored: 200, shown: 200, ids: 200 }, 'the token is remembered');

    const forget = 'ALTER TABLE events_stored MODIFY SETTING non_replicated_deduplication_window = 1';
    await clickhouse.command({ query: forget });
    await appendEvents(redis, pipeline.keys, 0, events(30));
    await pipeline.drained();
    await arrive();
    await flusher.close();
    t.same(await pipeline.counts(), { stored: 430, shown: 230, ids: 230 }, 'the second line of defence');
  },
);

t.test(
  'while ClickHouse is away events wait in Redis, and each is stored once when it is back',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const proxy = await startProxy(t, pipelines.clickhouseUrl);
    const url = new URL(pipelines.clickhouseUrl);
    url.port = String(proxy.port);
    const clickhouse = createClickHouse(url.href, pipeline.database);
    t.teardown(() => clickhouse.close());
    const metrics = new Registry();
    const flusher = pipeline.flusher({ clickhouse, metrics });
    await appendEvents(redis, pipeline.keys, 0, events(100));
    await pipeline.drained();
    proxy.retarget(NOWHERE);
    proxy.dropAll();
    await appendEvents(redis, pipeline.keys, 0, events(100));
    const failed = async () =>
      (await metrics.getSingleMetric('wishmeter_flush_insert_errors_total')?.get())?.values[0]?.value ?? 0;
    await until('inserts fail', async () => Number(await failed()) > 1);
    await appendEvents(redis, pipeline.keys, 0, events(100));
    t.equal((await pendingOf(redis, pipeline.keys, 0)).events, 200);
    proxy.retarget(pipelines.clickhouseUrl);
    await pipeline.drained();
    await flusher.close();
    t.same(await pipeline.counts(), { shown: 300, ids: 300, stored: 300 });
  },
);

t.test('close keeps its deadline while ClickHouse is away, and the batch stays in Redis', async (t) => {
  const pipeline = await pipelines.fresh();
  await appendEvents(redis, pipeline.keys, 0, events(10));
  const unreachable = createClickHouse(NOWHERE, pipeline.database);
  t.teardown(() => unreachable.close());
  const flusher = pipeline.flusher({ clickhouse: unreachable });
  await until('the batch is in flight', async () => (await manifestOf(pipeline)) !== null);
  await flusher.close(100); // inserts are tried for ever
  t.equal((await pendingOf(redis, pipeline.keys, 0)).events, 10);

  const next = pipeline.flusher({ owner: 'next', silentMs: 600_000 });
  await pipeline.drained();
  await next.close();
  t.same(await pipeline.counts(), { stored: 10, shown: 10, ids: 10 });
});

t.test('close lets the batch in flight finish', async (t) => {
  const pipeline = await pipelines.fresh();
  await appendEvents(redis, pipeline.keys, 0, events(10));
  let closing: Promise<void> | undefined;
  const flusher = pipeline.flusher({
    onStep: (step) => {
      if (step === 'prepared') closing = flusher.close();
    },
  });
  await until('closing', () => closing !== undefined);
  await closing;
  t.equal(await manifestOf(pipeline), null);
  t.same(await pipeline.counts(), { stored: 10, shown: 10, ids: 10 });
});

t.test('a materialized view that fails on one row blocks nothing but that row', async (t) => {
  const pipeline = await pipelines.freshDatabase();
  await pipeline.clickhouse.command({
    query: `CREATE MATERIALIZED VIEW picky ENGINE = MergeTree ORDER BY tuple()
      AS SELECT throwIf(profile_id = 'bad') AS x FROM events_stored`,
  });
  await appendEvents(redis, pipeline.keys, 0, [
    ...events(40),
    eventRow({ profile_id: 'bad' }),
    ...events(40),
  ]);
  const flusher = pipeline.flusher();
  await pipeline.drained();
  await flusher.close();
  t.equal(await redis.xlen(pipeline.keys.eventsDead(0)), 1);
  // ClickHouse stores a block before it asks the views, so the row itself may be there as well.
  const others = await pipeline.clickhouse.query({
    query: "SELECT toUInt32(count()) AS n FROM events WHERE profile_id != 'bad'",
    format: 'JSONEachRow',
  });
  t.same(await others.json(), [{ n: 80 }]);
});

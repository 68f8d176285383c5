// Flushers as processes that are killed and frozen at exact points: each event is there once. And what a flusher does when
// it is closed. (kills.test.ts kills one at random moments; clickhouse-answers.test.ts has a ClickHouse that fails.)

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { decodeManifest } from '../../src/flush/manifest.js';
import { readBatch } from '../../src/flush/reader.js';
import type { Step } from '../../src/flush/stream-flusher.js';
import { appendEvents, eventRows, pendingOf, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import type { ProcessSpec } from './flusher-process.js';
import { FULL } from './service.js';

const PROGRAM = new URL('./flusher-process.js', import.meta.url);
/** Where no server listens. */
const NOWHERE = 'http://127.0.0.1:1';
const never = new AbortController().signal;

const pipelines = await openPipelines(t, await startTestRedis(t), 1);
const { redis } = pipelines;

/** A flusher in a process of its own. */
function startProcess(t: Test, pipeline: Pipeline, changes: Partial<ProcessSpec>): ChildProcess {
  const spec = { ...pipeline.processSpec, owner: 'process', silentMs: 500, ...changes };
  const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

const append = (pipeline: Pipeline, n: number) => appendEvents(redis, pipeline.keys, 0, eventRows(n));
const manifestOf = (pipeline: Pipeline) => redis.hget(pipeline.keys.eventsState(0), 'manifest');
const ownerOf = (pipeline: Pipeline) => redis.hget(pipeline.keys.eventsState(0), 'owner');

/** What must be true at the moment of the kill, so that the test is known to have hit its point. */
const KILLS: readonly { step: Step; stored: number; manifest: boolean; waiting: number }[] = [
  { step: 'prepared', stored: 0, manifest: true, waiting: 200 },
  { step: 'inserted', stored: 200, manifest: true, waiting: 200 },
  { step: 'finalized', stored: 200, manifest: false, waiting: 0 },
];

// Its own stream it has at once. (Another's it takes over: ../flush/sharing.test.ts.)
for (const { step, stored, manifest, waiting } of KILLS)
  t.test(`kill -9 once ${step}, and a start: each event once`, async (t) => {
    const pipeline = await pipelines.fresh();
    await append(pipeline, 200);
    const child = startProcess(t, pipeline, { owner: 'a', at: { step, signal: 'SIGKILL' } });
    const [, signal] = await once(child, 'exit');
    t.equal(signal, 'SIGKILL');
    t.equal((await pipeline.counts()).stored, stored);
    t.equal((await manifestOf(pipeline)) !== null, manifest);
    t.equal((await pendingOf(redis, pipeline.keys, 0)).events, waiting);

    // New events must not change the batch that is replayed.
    await append(pipeline, 50);
    const flusher = pipeline.flusher({ owner: 'a', silentMs: 600_000 });
    await pipeline.drained();
    await flusher.close();
    t.same(await pipeline.counts(), { stored: 250, shown: 250, ids: 250 });
  });

for (const step of FULL ? (['prepared', 'inserted'] as const) : (['prepared'] as const))
  t.test(`frozen once ${step} and taken over: the older is fenced off, nothing is there twice`, async (t) => {
    const pipeline = await pipelines.fresh();
    await append(pipeline, 200);
    const child = startProcess(t, pipeline, { owner: 'older', at: { step, signal: 'SIGSTOP' } });
    await until('the older one has a batch in flight', async () => (await manifestOf(pipeline)) !== null);
    const newer = pipeline.flusher({ owner: 'newer', silentMs: 500 });
    await pipeline.drained();
    child.kill('SIGCONT');
    await append(pipeline, 30);
    await pipeline.drained();
    // Awake, it stands by: it has the stream again only when the newer one releases it.
    await newer.close();
    await until('the older one owns it', async () => (await ownerOf(pipeline)) === 'older');
    await append(pipeline, 30);
    await pipeline.drained();
    child.kill('SIGTERM');
    t.same(await once(child, 'exit'), [0, null]);
    t.same(await pipeline.counts(), { stored: 260, shown: 260, ids: 260 });
  });

t.test('an insert that comes after the table has forgotten its token is shown once', async (t) => {
  const pipeline = await pipelines.freshDatabase();
  const { clickhouse } = pipeline;
  await append(pipeline, 200);
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
  const arrive = () => insertEvents(clickhouse, late?.lines ?? Buffer.alloc(0), late?.token ?? '', never);
  await arrive();
  t.same(await pipeline.counts(), { stored: 200, shown: 200, ids: 200 }, 'the token is remembered');
  const forget = 'ALTER TABLE events_stored MODIFY SETTING non_replicated_deduplication_window = 1';
  await clickhouse.command({ query: forget });
  await append(pipeline, 30);
  await pipeline.drained();
  await arrive();
  await flusher.close();
  t.same(await pipeline.counts(), { stored: 430, shown: 230, ids: 230 }, 'the second line of defence');

  await t.test(
    "a materialized view of an operator that fails is the server's fault, and no row is given up for it",
    async (t) => {
      await clickhouse.command({
        query: `CREATE MATERIALIZED VIEW picky ENGINE = MergeTree ORDER BY tuple()
        AS SELECT throwIf(profile_id = 'bad') AS x FROM events_stored`,
      });
      await appendEvents(redis, pipeline.keys, 0, [...eventRows(40), ...eventRows(1, { profile_id: 'bad' })]);
      const metrics = new Registry();
      const next = pipeline.flusher({ metrics });
      const failed = async () => {
        const text = await metrics.getSingleMetricAsString('wishmeter_flush_insert_errors_total');
        return Number(/blame="server"\} (\d+)/.exec(text)?.[1] ?? 0);
      };
      await until('inserts fail, and are counted', async () => (await failed()) > 2);
      await append(pipeline, 40);
      t.equal((await pendingOf(redis, pipeline.keys, 0)).events, 81, 'all of them wait');
      await clickhouse.command({ query: 'DROP TABLE picky' });
      await pipeline.drained();
      await next.close();
      t.equal(await redis.xlen(pipeline.keys.eventsDead(0)), 0);
      t.same(await pipeline.ask('SELECT count() AS n FROM events'), [{ n: '311' }]);
    },
  );
});

t.test('close keeps its deadline while ClickHouse is away, and the batch stays in Redis', async (t) => {
  const pipeline = await pipelines.fresh();
  await append(pipeline, 10);
  const unreachable = connectToClickHouse(t, NOWHERE, pipeline.database);
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
  await append(pipeline, 10);
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

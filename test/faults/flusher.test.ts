// Flushers as processes that are killed and frozen at exact points: each event is there once. And what a flusher does when
// it is closed. (kills.test.ts kills one at random moments; clickhouse-answers.test.ts has a ClickHouse that fails.)

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import type { Step } from '../../src/flush/stream-flusher.js';
import { appendEvents, eventRows, pendingOf, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { connectToClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import type { ProcessSpec } from './flusher-process.js';

const PROGRAM = new URL('./flusher-process.js', import.meta.url);
/** Where no server listens. */
const NOWHERE = 'http://127.0.0.1:1';

const pipelines = await openPipelines(t, await startTestRedis(t), 1);
const { redis } = pipelines;

/** A flusher in a process of its own. */
function startProcess(t: Test, pipeline: Pipeline, changes: Partial<ProcessSpec>): ChildProcess {
  const spec = { ...pipeline.processSpec, ...changes };
  const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

const append = (pipeline: Pipeline, n: number) => appendEvents(redis, pipeline.keys, 0, eventRows(n));
/** Entries that a flusher has read and not acknowledged. */
const pendingEntries = async (pipeline: Pipeline) =>
  Number(((await redis.call('XPENDING', pipeline.keys.events(0), 'flush').catch(() => [0])) as unknown[])[0]);

/** What must be true at the moment of the kill, so that the test is known to have hit its point. */
const KILLS: readonly { step: Step; stored: number; waiting: number }[] = [
  { step: 'read', stored: 0, waiting: 200 },
  { step: 'inserted', stored: 200, waiting: 200 },
  { step: 'handedOver', stored: 200, waiting: 200 },
  { step: 'acknowledged', stored: 200, waiting: 0 },
];

for (const { step, stored, waiting } of KILLS)
  t.test(`kill -9 once ${step}, and another flusher: each event once`, async (t) => {
    const pipeline = await pipelines.fresh();
    await append(pipeline, 200);
    const child = startProcess(t, pipeline, { at: { step, signal: 'SIGKILL' } });
    const [, signal] = await once(child, 'exit');
    t.equal(signal, 'SIGKILL');
    t.equal((await pipeline.counts()).stored, stored);
    t.equal((await pendingOf(redis, pipeline.keys, 0)).events, waiting);

    await append(pipeline, 50);
    const flusher = pipeline.flusher({ abandonedMs: 200 });
    await pipeline.drained();
    await flusher.close();
    t.match(await pipeline.counts(), { shown: 250, ids: 250 });
  });

for (const step of ['read', 'inserted'] as const)
  t.test(`frozen once ${step} while another one brings its batch: awake, it spoils nothing`, async (t) => {
    const pipeline = await pipelines.fresh();
    await append(pipeline, 200);
    const child = startProcess(t, pipeline, { abandonedMs: 500, at: { step, signal: 'SIGSTOP' } });
    await until('it holds a batch', async () => (await pendingEntries(pipeline)) > 0);
    const other = pipeline.flusher({ abandonedMs: 500 });
    await pipeline.drained();
    child.kill('SIGCONT');
    await append(pipeline, 30);
    await pipeline.drained();
    await other.close();
    await append(pipeline, 30);
    await pipeline.drained();
    child.kill('SIGTERM');
    t.same(await once(child, 'exit'), [0, null]);
    t.match(await pipeline.counts(), { shown: 260, ids: 260 });
    t.same(await pendingOf(redis, pipeline.keys, 0), { events: 0, bytes: 0 });
  });

t.test('a flusher that wakes up does not bring back whose visitor was erased meanwhile', async (t) => {
  const pipeline = await pipelines.fresh();
  const child = startProcess(t, pipeline, { abandonedMs: 500, at: { step: 'read', signal: 'SIGSTOP' } });
  await appendEvents(redis, pipeline.keys, 0, eventRows(5, { profile_id: '7.gone' }));
  await until('it holds the batch', async () => (await pendingEntries(pipeline)) > 0);
  const other = pipeline.flusher({ abandonedMs: 500 });
  await pipeline.drained();
  // The erasure is done, and forgotten.
  await pipeline.clickhouse.command({
    query: "ALTER TABLE events_stored DELETE WHERE profile_id = '7.gone'",
    clickhouse_settings: { mutations_sync: '1' },
  });
  child.kill('SIGCONT');
  await other.close();
  await append(pipeline, 30);
  await pipeline.drained();
  child.kill('SIGTERM');
  await once(child, 'exit');
  t.same(await pipeline.counts(), { stored: 30, shown: 30, ids: 30 });
});

t.test(
  "a shop's own materialized view that fails is the server's fault, and no row is given up for it",
  async (t) => {
    const pipeline = await pipelines.freshDatabase();
    const { clickhouse } = pipeline;
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
    t.match(await pipeline.counts(), { shown: 81, ids: 81 });
  },
);

t.test('a batch that is inserted for longer than an entry may be idle stays with its flusher', async (t) => {
  const pipeline = await pipelines.fresh();
  let reads = 0;
  const onStep = async (step: Step) => {
    if (step === 'read') reads++;
    if (step === 'inserted') await sleep(1_000);
  };
  const flushers = [1, 2].map(() => pipeline.flusher({ abandonedMs: 250, onStep }));
  await append(pipeline, 20);
  await pipeline.drained();
  await Promise.all(flushers.map((flusher) => flusher.close()));
  t.equal(reads, 1);
});

t.test(
  'a replica that lacks the last acknowledgements takes over: its rows are brought again, and shown once',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const { keys } = pipeline;
    await append(pipeline, 40);
    const keptKeys = [keys.events(0), keys.eventsState(0)];
    const flusher = pipeline.flusher({
      abandonedMs: 200,
      onStep: async (step) => {
        // What the replica has: the entries, read and not acknowledged.
        if (step === 'inserted')
          for (const key of keptKeys) await redis.copy(key, `{${key}}:kept`, 'REPLACE').catch(() => {});
      },
    });
    await pipeline.drained();
    for (const key of keptKeys) await redis.rename(`{${key}}:kept`, key);
    t.equal((await pendingOf(redis, keys, 0)).events, 40);
    await append(pipeline, 5);
    await pipeline.drained();
    await flusher.close();
    t.match(await pipeline.counts(), { shown: 45, ids: 45 });
  },
);

t.test('close keeps its deadline while ClickHouse is away, and the batch stays in Redis', async (t) => {
  const pipeline = await pipelines.fresh();
  await append(pipeline, 10);
  const unreachable = connectToClickHouse(t, NOWHERE, pipeline.database);
  const flusher = pipeline.flusher({ clickhouse: unreachable });
  await until('the batch is in flight', async () => (await pendingEntries(pipeline)) > 0);
  await flusher.close(100); // inserts are tried for ever
  t.equal((await pendingOf(redis, pipeline.keys, 0)).events, 10);

  const next = pipeline.flusher({ abandonedMs: 50 });
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
      if (step === 'read') closing = flusher.close();
    },
  });
  await until('closing', () => closing !== undefined);
  await closing;
  t.equal(await pendingEntries(pipeline), 0);
  t.same(await pipeline.counts(), { stored: 10, shown: 10, ids: 10 });
});

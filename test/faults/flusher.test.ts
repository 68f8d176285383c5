// Flushers and a ClickHouse that die, freeze or fail at exact points: each event is stored once, and none is a dead letter.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import { receiverKeys } from '../../src/extras/receivers/keys.js';
import { RowEraser } from '../../src/flush/row-eraser.js';
import { tempDir } from '../cli/wishmeter.js';
import { openDeliveries, startTool } from '../extras/receivers/fixtures.js';
import { appendEvents, eventRow, eventRows, pendingOf, until } from '../flush/fixtures.js';
import { openPipelines, type Pipeline } from '../flush/pipelines.js';
import { connectToClickHouse, startTestClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { exception, type Spoiling, startClickHouseProxy } from './clickhouse-proxy.js';
import type { ProcessSpec, Step } from './flusher-process.js';
import { FULL } from './service.js';

const PROGRAM = new URL('./flusher-process.js', import.meta.url);
const NOWHERE = 'http://127.0.0.1:1';
const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server);
const { redis } = pipelines;
function startProcess(t: Test, pipeline: Pipeline, changes: Partial<ProcessSpec>): ChildProcess {
  const spec = { ...pipeline.processSpec, ...changes };
  const child = fork(PROGRAM, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}
const append = (pipeline: Pipeline, n: number) => appendEvents(redis, pipeline.keys, 0, eventRows(n));
const pendingEntries = async (pipeline: Pipeline) =>
  Number(((await redis.call('XPENDING', pipeline.keys.events(0), 'flush').catch(() => [0])) as unknown[])[0]);
/** The state at the moment of the kill: it proves that the kill hit its step. */
const KILLS: readonly { step: Step; stored: number; waiting: number }[] = [
  { step: 'read', stored: 0, waiting: 200 },
  { step: 'inserted', stored: 200, waiting: 200 },
  { step: 'handedOver', stored: 200, waiting: 200 },
  { step: 'acknowledged', stored: 200, waiting: 0 },
];
for (const { step, stored, waiting } of KILLS)
  t.test(
    `kill -9 of a flusher at the step "${step}": each event is stored once, and delivered`,
    async (t) => {
      const pipeline = await pipelines.fresh();
      const deliveries = await openDeliveries(t, server, pipeline.prefix);
      const tool = await startTool(t);
      const { id } = await deliveries.receiver(tool);
      const given = Array.from({ length: 200 }, (_, i) => eventRow({ profile_id: `7.p${i}`, payload: '{}' }));
      await appendEvents(redis, pipeline.keys, 0, given);
      const child = startProcess(t, pipeline, { at: { step, signal: 'SIGKILL' } });
      const [, signal] = await once(child, 'exit');
      t.equal(signal, 'SIGKILL');
      t.equal((await pipeline.counts()).stored, stored);
      t.equal((await pendingOf(redis, pipeline.keys, 0)).events, waiting);
      const isHandedOver = step === 'handedOver' || step === 'acknowledged';
      t.equal(await redis.xlen(receiverKeys(pipeline.keys).deliveries(id).queue), isHandedOver ? 200 : 0);

      await append(pipeline, 50);
      const flusher = pipeline.flusher({ abandonedMs: 200, handOver: deliveries.handOver.handOver });
      deliveries.deliverer();
      await pipeline.drained();
      await flusher.close();
      t.match(await pipeline.counts(), { shown: 250, ids: 250 });
      const arrived = () => new Set(tool.delivered.map((one) => one.id));
      await until('each event has arrived', () => arrived().size === 250);
      t.ok(given.every(({ event_id }) => arrived().has(event_id)));
    },
  );
const FROZEN = {
  'rows that a frozen flusher inserts after their erasure are erased, too': 'inserting',
  'a frozen flusher whose insert fails drops the batch if another flusher has inserted it': 'failing',
  'a flusher that was frozen after its insert doubles no row and restores no erased row': 'inserted',
} as const;
for (const [title, when] of Object.entries(FROZEN))
  t.test(title, async (t) => {
    const pipeline = await pipelines.fresh();
    const { keys, clickhouse } = pipeline;
    const GONE = '7.gone';
    await append(pipeline, 195);
    await appendEvents(redis, keys, 0, eventRows(5, { profile_id: GONE }));
    const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
    if (when === 'failing') proxy.spoil({ forward: false, answer: 'nothing: the connection closes' });
    const step = when === 'inserted' ? when : 'inserting';
    const at = { step, signal: 'SIGSTOP' } as const;
    const child = startProcess(t, pipeline, { clickhouseUrl: proxy.url, abandonedMs: 500, at });
    await until('it holds a batch', async () => (await pendingEntries(pipeline)) > 0);
    const other = pipeline.flusher({ abandonedMs: 500 });
    await pipeline.drained();
    await redis.hset(keys.erasures, GONE, `${Date.now()} ${Date.now()}`);
    const eraser = new RowEraser({ redis, keys, clickhouse, inFlightMs: 0, lateMs: 0 });
    await eraser.run();
    const shown = async () => (await pipeline.counts()).shown;
    t.equal(await shown(), 195);
    child.kill('SIGCONT');
    if (when === 'inserting') await until('its insert arrives late', async () => (await shown()) === 200);
    await append(pipeline, 30);
    await pipeline.drained();
    await other.close();
    await append(pipeline, 30);
    await pipeline.drained();
    child.kill('SIGTERM');
    t.same(await once(child, 'exit'), [0, null]);
    if (when !== 'inserting') t.equal(await shown(), 255);
    t.same(await eraser.run(), [GONE]);
    t.match(await pipeline.counts(), { shown: 255, ids: 255 });
    t.same(await pendingOf(redis, keys, 0), { events: 0, bytes: 0 });
  });
t.test('a batch whose insert exceeds the idle limit stays with its flusher', async (t) => {
  const pipeline = await pipelines.fresh();
  let batches = 0;
  const handOver = async () => {
    batches++;
    await sleep(1_000);
  };
  const flushers = [1, 2].map(() => pipeline.flusher({ abandonedMs: 250, handOver }));
  await append(pipeline, 20);
  await pipeline.drained();
  await Promise.all(flushers.map((flusher) => flusher.close()));
  t.equal(batches, 1);
});
t.test(
  'a Redis replica without the last acknowledgements takes over, and repeated rows are shown once',
  async (t) => {
    const pipeline = await pipelines.fresh();
    const { keys } = pipeline;
    await append(pipeline, 40);
    const keptKeys = [keys.events(0), keys.eventsState(0)];
    const flusher = pipeline.flusher({
      abandonedMs: 200,
      async handOver() {
        // The state of the replica: the entries are read, but not acknowledged.
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
t.test(
  'close of a flusher keeps its deadline while ClickHouse is away, and the batch stays in Redis',
  async (t) => {
    const pipeline = await pipelines.fresh();
    await append(pipeline, 10);
    const unreachable = connectToClickHouse(t, NOWHERE, pipeline.database);
    const flusher = pipeline.flusher({ clickhouse: unreachable });
    await until('the batch is in flight', async () => (await pendingEntries(pipeline)) > 0);
    await flusher.close(100); // the flusher never gives up an insert
    t.equal((await pendingOf(redis, pipeline.keys, 0)).events, 10);

    const next = pipeline.flusher({ abandonedMs: 50 });
    await pipeline.drained();
    await next.close();
    t.same(await pipeline.counts(), { stored: 10, shown: 10, ids: 10 });
  },
);
t.test('a flusher with a failing ClickHouse', async (t) => {
  const FEBRUARY = '2026-02-01T00:00:00.000Z';
  const events = (n: number, occurred_at: string) => eventRows(n, { occurred_at });
  const failure = (code: number, text: string, status = 500): Spoiling['answer'] => ({
    status,
    ...(status === 200 ? {} : { code }),
    body: exception(code, text, 'NAME'),
  });
  /** Answers that leave open whether the rows are stored. */
  const UNKNOWN: readonly Spoiling['answer'][] = [
    'nothing: the connection closes',
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
  async function counts({ ask }: Pick<Pipeline, 'ask'>) {
    const [found] = await ask(
      'SELECT toUInt32(count()) AS shown, toUInt32(uniqExact(event_id)) AS ids FROM events',
    );
    return found;
  }
  t.test('the flusher repeats a failed insert whatever the answer, and counts each failure', async (t) => {
    const proxy = await startClickHouseProxy(t, pipelines.clickhouseUrl);
    const pipeline = await pipelines.fresh();
    const metrics = new Registry();
    const clickhouse = createClient({
      url: proxy.url,
      database: pipeline.database,
      request_timeout: 1_000, // the program waits a minute; a slow machine may exceed a second: `abandoned` counts these
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
  t.test('every event is stored although ClickHouse is killed during an insert', async (t) => {
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
});

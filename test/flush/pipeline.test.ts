// From the stream to ClickHouse, on one Redis and on a cluster.

import { setTimeout as sleep } from 'node:timers/promises';
import { Registry } from 'prom-client';
import t from 'tap';
import { dropDeadLetters, listDeadLetters, retryDeadLetters } from '../../src/flush/dead-letters.js';
import { connectRedis } from '../../src/redis/client.js';
import { startTestCluster, startTestRedis } from '../harness/redis.js';
import { appendEvents, appendLines, eventRow, lineOf, pendingOf, until } from './fixtures.js';
import { openPipelines } from './pipelines.js';

const events = (n: number) => Array.from({ length: n }, () => eventRow());

for (const [kind, start] of [
  ['one Redis', startTestRedis],
  ['a Redis Cluster', startTestCluster],
] as const) {
  t.test(`on ${kind}`, async (t) => {
    const pipelines = await openPipelines(await start());
    t.teardown(() => pipelines.close());
    const { redis } = pipelines;

    t.test(
      'events of all shards are there once, also those that come while others are flushed',
      async (t) => {
        const pipeline = await pipelines.fresh(3);
        await Promise.all([0, 1, 2].map((shard) => appendEvents(redis, pipeline.keys, shard, events(500))));
        const flusher = pipeline.flusher();
        for (let i = 0; i < 20; i++) {
          await Promise.all([0, 1, 2].map((shard) => appendEvents(redis, pipeline.keys, shard, events(10))));
        }
        await pipeline.drained();
        await flusher.close();
        t.same(await pipeline.counts(), { stored: 2_100, shown: 2_100, ids: 2_100 });
        for (const shard of [0, 1, 2]) t.equal(await redis.xlen(pipeline.keys.events(shard)), 0);
      },
    );

    t.test('an entry that is not ours leaves the stream as a dead letter and holds up nothing', async (t) => {
      const pipeline = await pipelines.fresh();
      await redis.xadd(pipeline.keys.events(0), '*', 'hello', 'world');
      const flusher = pipeline.flusher();
      await until(
        'it is a dead letter',
        async () => (await listDeadLetters(redis, pipeline.keys, 0)).length > 0,
      );
      await appendEvents(redis, pipeline.keys, 0, events(3));
      await redis.xadd(pipeline.keys.events(0), '*', 'n', '1', 'd', 'no newline');
      await appendEvents(redis, pipeline.keys, 0, events(3));
      await until('the events are there', async () => (await pipeline.counts()).shown === 6);
      await pipeline.drained();
      t.equal(await redis.xlen(pipeline.keys.events(0)), 0);
      const letters = await listDeadLetters(redis, pipeline.keys, 0);
      t.same(
        letters.map(({ code, line, entry }) => [code, line, JSON.parse(entry ?? '').fields]),
        [
          [0, '', ['hello', 'world']],
          [0, '', ['n', '1', 'd', 'no newline']],
        ],
      );
      const ids = letters.map(({ id }) => id);
      t.equal(await retryDeadLetters(redis, pipeline.keys, 0, ids), 0, 'it is no event');
      t.equal(await dropDeadLetters(redis, pipeline.keys, 0, ids), 2);
      await flusher.close();
      t.same(await pendingOf(redis, pipeline.keys, 0), { events: 0, bytes: 0 });
    });

    t.test('a bad line in the middle becomes the only dead letter, and the rest is there', async (t) => {
      const pipeline = await pipelines.freshDatabase();
      const bad = lineOf(eventRow()).replace('"type":"add"', '"type":"add","quantity":"two"');
      const broken = '{"event_id":"01990292\n';
      await appendEvents(redis, pipeline.keys, 0, events(300));
      await appendLines(redis, pipeline.keys, 0, [lineOf(eventRow()), bad, lineOf(eventRow())]);
      await appendLines(redis, pipeline.keys, 0, [broken]);
      await appendEvents(redis, pipeline.keys, 0, events(300));
      const registry = new Registry();
      const flusher = pipeline.flusher({ metrics: registry });
      await pipeline.drained();
      t.same(await pipeline.counts(), { stored: 602, shown: 602, ids: 602 });

      const letters = await listDeadLetters(redis, pipeline.keys, 0);
      t.same(letters.map(({ line }) => `${line}\n`).toSorted(), [bad, broken].toSorted());
      t.match(letters, [
        { code: Number, reason: /\S/ },
        { code: Number, reason: /\S/ },
      ]);
      const total = async (name: string) => (await registry.getSingleMetric(name)?.get())?.values[0]?.value;
      t.equal(await total('wishmeter_flush_rows_total'), 602);
      t.equal(await total('wishmeter_flush_refused_total'), 2);
      t.ok(Number(await total('wishmeter_flush_insert_errors_total')) > 2);

      // Once the cause is mended, what was refused goes in.
      await pipeline.clickhouse.command({
        query: 'ALTER TABLE events_stored MODIFY COLUMN quantity Nullable(String)',
      });
      t.equal(
        await retryDeadLetters(
          redis,
          pipeline.keys,
          0,
          letters.map(({ id }) => id),
        ),
        2,
      );
      await until('the mended one is there', async () => (await pipeline.counts()).shown === 603);
      await pipeline.drained();
      const [still, ...none] = await listDeadLetters(redis, pipeline.keys, 0);
      t.equal(`${still?.line}\n`, broken);
      t.same(none, []);
      t.equal(await dropDeadLetters(redis, pipeline.keys, 0, [still?.id ?? '']), 1);
      await flusher.close();
    });

    t.test('a second flusher stands by, and has the shard at once when the first closes', async (t) => {
      const pipeline = await pipelines.fresh();
      const first = pipeline.flusher({ owner: 'first' });
      await until(
        'the first owns it',
        async () => (await redis.hget(pipeline.keys.eventsState(0), 'owner')) === 'first',
      );
      const second = pipeline.flusher({ owner: 'second', silentMs: 600_000 });
      await appendEvents(redis, pipeline.keys, 0, events(10));
      await pipeline.drained();
      t.equal(await redis.hget(pipeline.keys.eventsState(0), 'owner'), 'first');
      await first.close();
      await appendEvents(redis, pipeline.keys, 0, events(10));
      await pipeline.drained();
      t.equal(await redis.hget(pipeline.keys.eventsState(0), 'owner'), 'second');
      await second.close();
      t.equal(await redis.hget(pipeline.keys.eventsState(0), 'owner'), null);
      t.same(await pipeline.counts(), { stored: 20, shown: 20, ids: 20 });
    });

    t.test('close brings what waits by then to ClickHouse', async (t) => {
      const pipeline = await pipelines.fresh();
      const flusher = pipeline.flusher({ owner: 'only', intervalMs: 60_000 });
      await until(
        'it owns the shard',
        async () => (await redis.hget(pipeline.keys.eventsState(0), 'owner')) === 'only',
      );
      await sleep(100); // its first look found nothing; the next is a minute away
      await appendEvents(redis, pipeline.keys, 0, events(30));
      await flusher.close();
      t.same(await pipeline.counts(), { stored: 30, shown: 30, ids: 30 });
    });
  });
}

/** So many share the memory for batches: each batch is up to 4 MB. */
const SHARDS = 12;

t.test('in detail', async (t) => {
  const pipelines = await openPipelines(await startTestRedis());
  t.teardown(() => pipelines.close());
  const { redis } = pipelines;

  t.test('more than one batch: each is one insert, and none waits for the interval', async (t) => {
    const pipeline = await pipelines.fresh(SHARDS);
    const big = { note: 'x'.repeat(16_000) };
    for (let i = 0; i < 20; i++) {
      await appendEvents(
        redis,
        pipeline.keys,
        0,
        Array.from({ length: 100 }, () => eventRow({ payload: big })),
        20,
      );
    }
    const { bytes } = await pendingOf(redis, pipeline.keys, 0);
    t.ok(bytes > 30e6);
    const registry = new Registry();
    const flusher = pipeline.flusher({ intervalMs: 60_000, metrics: registry });
    await pipeline.drained();
    await flusher.close();
    t.same(await pipeline.counts(), { stored: 2_000, shown: 2_000, ids: 2_000 });
    const batches = (await registry.getSingleMetric('wishmeter_flush_batches_total')?.get())?.values[0]
      ?.value;
    t.equal(batches, Math.ceil(bytes / 4e6), `${bytes} bytes in batches below 4 MB`);
  });

  t.test('close brings all that waits to ClickHouse, also where it is more than one batch', async (t) => {
    const pipeline = await pipelines.fresh(SHARDS);
    const flusher = pipeline.flusher({ intervalMs: 600_000 });
    await until(
      'it owns the shard',
      async () => (await redis.hexists(pipeline.keys.eventsState(0), 'owner')) === 1,
    );
    await sleep(100); // its first look found nothing; the next is ten minutes away
    const big = { note: 'x'.repeat(16_000) };
    for (let i = 0; i < 26; i++) {
      const rows = Array.from({ length: 50 }, () => eventRow({ payload: big }));
      await appendEvents(redis, pipeline.keys, 0, rows, 50);
    }
    t.ok((await pendingOf(redis, pipeline.keys, 0)).bytes > 20e6, 'six batches');
    await flusher.close(90_000);
    t.same(await pipeline.counts(), { stored: 1_300, shown: 1_300, ids: 1_300 });
    t.same(await pendingOf(redis, pipeline.keys, 0), { events: 0, bytes: 0 });
  });

  t.test('few events wait for the interval, so that there are few parts', async (t) => {
    const pipeline = await pipelines.fresh();
    let inserts = 0;
    const began = performance.now();
    const flusher = pipeline.flusher({
      intervalMs: 400,
      onStep: (step) => {
        if (step === 'finalized') inserts++;
      },
    });
    for (let i = 0; i < 40; i++) {
      await appendEvents(redis, pipeline.keys, 0, events(1));
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    await pipeline.drained();
    await flusher.close();
    const most = (performance.now() - began) / 400 + 2;
    t.ok(inserts >= 2 && inserts <= most, `${inserts} inserts, at most ${most}`);
    t.equal((await pipeline.counts()).shown, 40);
  });

  t.test('the epoch of a shard shows while it is owned, and is gone afterwards', async (t) => {
    const pipeline = await pipelines.fresh();
    const registry = new Registry();
    const flusher = pipeline.flusher({ metrics: registry, silentMs: 200, intervalMs: 60_000 });
    await until('the shard is owned', async () =>
      (await registry.metrics()).includes('wishmeter_flush_epoch{shard="0"}'),
    );
    await flusher.close();
    t.notMatch(await registry.metrics(), /\{shard="0"\}/);
  });

  t.test('connections that are cut again and again cost nothing but time', async (t) => {
    const pipeline = await pipelines.fresh();
    const own = await connectRedis(
      { urls: pipelines.redisUrls, name: 'flusher', timeoutMs: 5_000 },
      () => {},
    );
    const flusher = pipeline.flusher({ redis: own });
    let cut = 0;
    for (let i = 0; i < 40; i++) {
      await appendEvents(redis, pipeline.keys, 0, events(50));
      cut += Number(await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'));
      await until('the flusher is connected again', () => own.status === 'ready');
    }
    t.ok(cut >= 20, `${cut} connections were cut`);
    await pipeline.drained();
    await flusher.close();
    own.disconnect();
    t.same(await pipeline.counts(), { stored: 2_000, shown: 2_000, ids: 2_000 });
  });
});

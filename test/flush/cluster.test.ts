// What crosses slots, on a Redis Cluster: streams of events and visits of every node.

import t from 'tap';
import { streamsOf } from '../../src/redis/marks.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestCluster } from '../harness/redis.js';
import { appendEvents, eventRows, pendingOf, until } from './fixtures.js';
import { openPipelines } from './pipelines.js';

const server = await startTestCluster(t);
const pipelines = await openPipelines(t, server);
const { redis } = pipelines;

interface Row {
  readonly occurred_at: string;
  readonly profile_id: string;
  readonly product_handle: string;
  readonly device: string;
}

t.test('events of all shards are stored once, also those that come while others are flushed', async (t) => {
  const pipeline = await pipelines.fresh(3);
  const appendToEach = (n: number) =>
    Promise.all([0, 1, 2].map((shard) => appendEvents(redis, pipeline.keys, shard, eventRows(n))));
  await appendToEach(100);
  const flusher = pipeline.flusher();
  for (let i = 0; i < 10; i++) await appendToEach(10);
  await pipeline.drained();
  await flusher.close();
  t.same(await pipeline.counts(), { stored: 600, shown: 600, ids: 600 });
  for (const shard of [0, 1, 2]) t.equal(await redis.xlen(pipeline.keys.events(shard)), 0);
});

t.test('visits are stored once, as the service counted them', async (t) => {
  const pipeline = await pipelines.fresh();
  const app = await startApp(t, { urls: pipelines.redisUrls }, { prefix: pipeline.prefix });
  const streams = await streamsOf(redis, pipeline.keys);
  t.equal(streams.length, 3, 'one for each master');
  const flusher = pipeline.flusher();
  const began = Date.now();
  const expected: Record<string, number> = {};
  for (let round = 0; round < 3; round++) {
    const visits = Array.from({ length: 100 }, (_, i) => ({
      identity: { sessionId: `s${i}`, device: `back\\slash ${round % 2}` },
      productHandle: i === 0 ? '\\'.repeat(255) : `ü"'\\N${i % 7}`,
    }));
    const { json } = await app.post('/product/visit/batch', { visits }, TRUSTED);
    for (const [i, { profileId }] of json.results.entries()) {
      const { productHandle, identity } = visits[i] as (typeof visits)[number];
      const row = [profileId, productHandle, identity.device].join(' ');
      expected[row] = (expected[row] ?? 0) + 1;
    }
  }
  const read = () => pipeline.ask<Row>('SELECT * FROM visits');
  await until('all are there', async () => (await read()).length === 300);
  await flusher.close();
  const rows = await read();
  const found: Record<string, number> = {};
  for (const { profile_id, product_handle, device } of rows) {
    const row = [profile_id, product_handle, device].join(' ');
    found[row] = (found[row] ?? 0) + 1;
  }
  t.same(found, expected);
  const times = rows.map(({ occurred_at }) => Date.parse(`${occurred_at.replace(' ', 'T')}Z`));
  t.ok(Math.min(...times) >= began - 2 && Math.max(...times) <= Date.now() + 2, 'at their times');
  for (const stream of streams) {
    t.same(await pendingOf(redis, pipeline.keys.visits, stream), { events: 0, bytes: 0 });
    t.equal(await redis.xlen(pipeline.keys.visits.events(stream)), 0);
  }
  t.same(await pipeline.counts(), { stored: 0, shown: 0, ids: 0 }, 'and no event');
});

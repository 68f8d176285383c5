// What crosses slots, on a Redis Cluster: streams of several shards, visits of every node, and EVENT_SHARDS raised while
// two `serve` and two `flush` run and visitors go on.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { visitStreams } from '../../src/flush/backlog.js';
import { EventShards } from '../../src/redis/event-shards.js';
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

const VISITORS = 8;
const BEFORE = 10;
const AFTER = 10;
/** Each process asks once a second; one that learns of a raise too late would spoil the order. */
const LEAD_MS = 3_000;
const REST_MS = 50;

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
  const streams = await visitStreams(redis, pipeline.keys);
  t.equal(streams.length, 16);
  const flusher = pipeline.flusher({ visitStreams: streams });
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

t.test(
  'while EVENT_SHARDS is raised each event arrives once, and never before earlier ones of its visitor',
  async (t) => {
    const pipeline = await pipelines.fresh(5);
    const apps = [
      await startApp(t, server, { prefix: pipeline.prefix }),
      await startApp(t, server, { prefix: pipeline.prefix }),
    ];
    const open = async () => {
      const shards = await EventShards.open(redis, pipeline.keys);
      t.teardown(shards.watch());
      return shards;
    };
    const raising = await open();
    t.equal(raising.current, 1);
    const flushers = [
      pipeline.flusher({ owner: 'a', shards: await open() }),
      pipeline.flusher({ owner: 'b', shards: await open() }),
    ];
    t.teardown(() => Promise.all(flushers.map((flusher) => flusher.close(0))));

    let isOver = false;
    const gaps: string[] = [];
    let looks = 0;
    const watching = (async () => {
      while (!isOver) {
        const shown = await pipeline.ask<{ session_id: string; seen: number; last: number }>(
          `SELECT session_id, toUInt32(count()) AS seen, toUInt32(max(quantity)) AS last
          FROM events GROUP BY session_id`,
        );
        for (const { session_id, seen, last } of shown)
          if (seen !== last) gaps.push(`${session_id}: event ${last} is there, and ${seen} in all`);
        looks++;
        await sleep(REST_MS);
      }
    })();

    // One after the other, by turns through both processes: what is answered has happened before the next.
    const send = async (sessionId: string, quantity: number) => {
      const body = { identity: { sessionId }, type: 'add', payload: { quantity } };
      await until(`event ${quantity} of ${sessionId}`, async () => {
        const app = apps[quantity % 2];
        // What is refused when this machine is busy is sent again, and is the same event.
        const headers = { ...TRUSTED, 'idempotency-key': `${sessionId} ${quantity}` };
        return (await app?.post('/event', body, headers))?.status === 200;
      });
    };
    const sendAll = (from: number, to: () => boolean | number) =>
      Promise.all(
        Array.from({ length: VISITORS }, async (_, i) => {
          let n = from;
          for (; to() === true || n <= Number(to()); n++) {
            await send(`v${i}`, n);
            await sleep(REST_MS);
          }
          return n - 1;
        }),
      );
    await sendAll(1, () => BEFORE);
    await raising.raise(5, LEAD_MS);
    // Until the new shards are used, however long that takes here.
    let goOn = true;
    const used = until('new shards are used', async () => {
      const states = await Promise.all(
        [1, 2, 3, 4].map((shard) => redis.exists(pipeline.keys.eventsState(shard))),
      );
      return raising.current === 5 && states.some((there) => there === 1);
    }).finally(() => {
      goOn = false;
    });
    const last = await sendAll(BEFORE + 1, () => (goOn ? true : BEFORE + AFTER));
    await used;
    await pipeline.drained();
    isOver = true;
    await watching;
    const sent = last.reduce((sum, n) => sum + n, 0);
    t.match(await pipeline.counts(), { shown: sent, ids: sent });
    t.same(gaps.slice(0, 5), [], `${looks} looks`);
    await Promise.all(flushers.map((flusher) => flusher.close()));
  },
);

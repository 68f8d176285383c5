// Clocks that are set back an hour, ours and Redis's: ids stay unique, order stays order, no request waits that hour.
// Here our clock is a function and what a jump leaves behind in Redis is put there by hand, part by part; processes
// whose clocks do jump are in clock-jumps.test.ts.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { appendEvents, eventRow, until } from '../flush/fixtures.js';
import { openPipelines } from '../flush/pipelines.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

const HOUR_MS = 3_600_000;
const server = await startTestRedis();
const pipelines = await openPipelines(server);
t.teardown(() => pipelines.close());
const { redis } = pipelines;

interface Line {
  readonly event_id: string;
  readonly occurred_at: number;
  readonly payload: string;
}

t.test('our clock jumps back an hour: ids are unique, the order is that of the answers', async (t) => {
  const app = await startApp(t, server);
  const { now } = Date;
  t.teardown(() => {
    Date.now = now;
  });
  const send = async (n: number) => {
    const event = { identity: { sessionId: 's' }, type: 'add', payload: { n } };
    const { status } = await app.post('/event', event, TRUSTED);
    if (status !== 200) t.fail(`${n}: ${status}`);
  };
  const times = 200;
  for (let n = 0; n < times; n++) {
    if (n === times / 2) Date.now = () => now() - HOUR_MS;
    await send(n);
  }
  const client = connectTo(server.url);
  t.teardown(() => client.disconnect());
  const entries = await client.xrange(createKeys(app.prefix).events(0), '-', '+');
  const lines = entries.flatMap(([, fields]) => {
    const text = fields[fields.indexOf('d') + 1] ?? '';
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  });
  t.same(
    lines.map(({ payload }) => JSON.parse(payload).n),
    Array.from({ length: times }, (_, n) => n),
  );
  t.equal(new Set(lines.map(({ event_id }) => event_id)).size, times);
  t.ok(lines.every(({ event_id }) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/.test(event_id)));
  const [before, after] = [lines[times / 2 - 1], lines[times / 2]] as [Line, Line];
  t.ok(before.occurred_at - after.occurred_at > HOUR_MS - 60_000, 'the clock did jump');
  // The deadlines of batches are measured by a clock that can't be set.
  t.match(await app.post('/product/visit?count=true', { identity: { sessionId: 's' }, productHandle: 'x' }), {
    status: 200,
    json: { count: 1 },
  });
});

t.test(
  "Redis's clock jumps back an hour: entries go on after the last one, and each is there once",
  async (t) => {
    const pipeline = await pipelines.fresh();
    const stream = pipeline.keys.events(0);
    await appendEvents(redis, pipeline.keys, 0, [eventRow({ product_id: 'before' })]);
    // A last id of an hour ahead is what is left by a clock that was an hour ahead.
    const ahead = Date.now() + HOUR_MS;
    await redis.call('XSETID', stream, `${ahead}-0`);
    for (let n = 0; n < 50; n++)
      await appendEvents(redis, pipeline.keys, 0, [eventRow({ product_id: String(n) })]);
    const ids = (await redis.xrange(stream, '-', '+')).map(([id]) => id);
    t.same(
      ids.slice(1),
      Array.from({ length: 50 }, (_, n) => `${ahead}-${n + 1}`),
    );

    const flusher = pipeline.flusher();
    await pipeline.drained();
    await appendEvents(redis, pipeline.keys, 0, [eventRow({ product_id: 'after' })]);
    await pipeline.drained();
    await flusher.close();
    t.same(await pipeline.counts(), { stored: 52, shown: 52, ids: 52 });
  },
);

t.test("Redis's clock jumps back an hour: a flusher that is gone is not waited for so long", async (t) => {
  const pipeline = await pipelines.fresh();
  await appendEvents(redis, pipeline.keys, 0, [eventRow()]);
  const epoch = Date.now() + HOUR_MS;
  await redis.hset(pipeline.keys.eventsState(0), { owner: 'gone', epoch, beat: Date.now() + HOUR_MS });
  const began = performance.now();
  const flusher = pipeline.flusher({ owner: 'next', silentMs: 500 });
  await pipeline.drained();
  t.ok(performance.now() - began > 400, 'it had its time to be heard of');
  t.ok(Number(await redis.hget(pipeline.keys.eventsState(0), 'epoch')) > epoch, 'the epoch rises');
  await flusher.close();
  t.match(await pipeline.counts(), { shown: 1 });
});

t.test("Redis's clock jumps back an hour: a flusher that is alive keeps its shard", async (t) => {
  const pipeline = await pipelines.fresh();
  // Longer than this machine may stall for: who is not heard of for so long loses its shard, and rightly.
  const silentMs = 2_000;
  const flusher = pipeline.flusher({ owner: 'alive', silentMs });
  const state = pipeline.keys.eventsState(0);
  await until('it owns the shard', async () => (await redis.hget(state, 'owner')) === 'alive');
  const other = pipeline.flusher({ owner: 'other', silentMs });
  await redis.hset(state, 'beat', Date.now() + HOUR_MS);
  await new Promise((done) => setTimeout(done, 2 * silentMs + 500));
  t.equal(await redis.hget(state, 'owner'), 'alive');
  await Promise.all([flusher.close(), other.close()]);
});

// Deliveries survive kills and failovers under one id, an erased visitor's leave Redis, and `replay` queues each event once.

import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { receiverKeys } from '../../../src/extras/receivers/keys.js';
import { Receivers } from '../../../src/extras/receivers/receivers.js';
import { replay } from '../../../src/extras/receivers/replay.js';
import { RowEraser } from '../../../src/flush/row-eraser.js';
import { runWishmeter } from '../../cli/wishmeter.js';
import { FULL } from '../../faults/service.js';
import { eventRow } from '../../flush/fixtures.js';
import { openPipelines } from '../../flush/pipelines.js';
import { startApp } from '../../harness/app.js';
import { dumpRedis } from '../../harness/dump.js';
import { startTestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import { openDeliveries, startTool, type Tool } from './fixtures.js';

const MAX_CONCURRENT_DELIVERIES = 16;
const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server);
const missing = (tool: Tool, sent: readonly string[]) => {
  const arrived = new Set(tool.delivered.map(({ id }) => id));
  return sent.filter((id) => !arrived.has(id));
};
/** A `deliver` that gets a signal at its n-th delivery. @returns its queue, and deliverers that can continue */
async function interrupted(
  t: Test,
  prefix: string,
  nth: number,
  isAnswered: boolean,
  signal: NodeJS.Signals,
) {
  const deliveries = await openDeliveries(t, server, prefix);
  const tool = await startTool(t);
  const { id } = await deliveries.receiver(tool);
  const sent = await deliveries.send(...Array(100).fill({}));
  const env = { REDIS_URL: server.urls.join(','), KEY_PREFIX: prefix, RECEIVERS_PRIVATE: 'allow' };
  const { child } = runWishmeter(t, { args: ['deliver'], env });
  await new Promise<void>((reached) => {
    tool.answer = (res) => {
      if (isAnswered) res.end();
      if (tool.delivered.length === nth) {
        child.kill(signal);
        reached();
      }
      if (!isAnswered) setTimeout(() => res.end(), 3);
    };
  });
  return { ...deliveries, tool, id, sent, child };
}

for (const isAnswered of [false, true])
  for (const nth of FULL ? [1, 2, 7, 16, 17, 40] : [17])
    t.test(
      `each event arrives although deliver is killed with ${nth} ${isAnswered ? 'answered' : 'sent'}`,
      async (t) => {
        const one = await interrupted(t, `k${nth}${isAnswered}`, nth, isAnswered, 'SIGKILL');
        await once(one.child, 'exit');
        const { tool, sent } = one;
        t.not(missing(tool, sent).length, 0, 'it was killed before the end');
        await one.makeDue(one.id);
        one.deliverer();
        await until('all have arrived', () => missing(tool, sent).length === 0);
        t.ok(tool.delivered.length <= 100 + MAX_CONCURRENT_DELIVERIES, `${tool.delivered.length} in all`);
        t.same(tool.faults, []);
      },
    );

t.test('a frozen deliver continues after another one has delivered its events', async (t) => {
  const one = await interrupted(t, 'frozen', 30, false, 'SIGSTOP');
  const { tool, sent } = one;
  await one.makeDue(one.id);
  const other = one.deliverer();
  await until('all have arrived', () => missing(tool, sent).length === 0);
  await one.settled();
  await other.close();
  one.child.kill('SIGCONT');
  const more = await one.send(...Array(50).fill({}));
  await until('it goes on', () => missing(tool, more).length === 0);
  t.ok(tool.delivered.length <= 150 + MAX_CONCURRENT_DELIVERIES, `${tool.delivered.length} in all`);
  t.same(tool.faults, []);
});

t.test('leases and results that a failover lost are repeated, and no delivery is left out', async (t) => {
  const deliveries = await openDeliveries(t, server, 'failover');
  const { id } = await deliveries.receiver(await startTool(t));
  const queue = deliveries.receivers.queue(id);
  const { client, keys } = deliveries.store;
  const touched = Object.values(receiverKeys(keys).deliveries(id));
  const take = (count = 9) => queue.take(count, 600_000);
  await queue.add(['a', 'b', 'c']);
  await take(1);
  const before = await Promise.all(touched.map((key) => client.dumpBuffer(key)));
  const [b, c] = (await take()).map((taken) => taken.id) as [string, string];
  await queue.resolve(b, { outcome: 'done' });
  await queue.resolve(c, { outcome: 'retry', attempts: 1, retryInMs: 600_000 });
  await client.del(...touched);
  for (const [i, key] of touched.entries()) await client.restore(key, 0, before[i] as Buffer);
  await queue.add(['d']);
  t.match(await take(), [{ line: 'b' }, { line: 'c' }, { line: 'd' }]);
});

t.test('deliveries of an erased visitor are dropped, and those of later events are sent', async (t) => {
  const pipeline = await pipelines.fresh();
  const app = await startApp(t, server, { prefix: pipeline.prefix });
  const deliveries = await openDeliveries(t, server, pipeline.prefix);
  const tool = await startTool(t);
  tool.answer = (res) => void res.writeHead(500).end();
  const { id } = await deliveries.receiver(tool);
  const { client, keys } = deliveries.store;
  const { queue } = receiverKeys(keys).deliveries(id);
  const flusher = pipeline.flusher({ handOver: deliveries.handOver.handOver });
  const [gone, stays] = [{ sessionId: 's-gone-visitor' }, { sessionId: 's-stays' }];
  const { profileId } = await app.shop.event(gone);
  await app.shop.event(stays);
  await pipeline.drained();
  await flusher.close();
  // More than one page of deliveries.
  await deliveries.send(...Array(120).fill({ profileId }), {});
  t.equal(await client.xlen(queue), 123);

  await app.shop.erase(gone);
  const spec = { redis: client, keys, clickhouse: pipeline.clickhouse, inFlightMs: 0, lateMs: 0 };
  const eraser = new RowEraser({ ...spec, eraseInExtras: deliveries.handOver.erase });
  await until('the erasure is done', async () => {
    await eraser.run();
    return (await client.hlen(keys.erasures)) === 0;
  });
  t.equal(await client.xlen(queue), 2);
  t.notMatch(JSON.stringify(await dumpRedis(server, pipeline.prefix)), /s-gone-visitor/);

  // This erasure is still queued: only events from before it are dropped.
  await app.shop.event(gone);
  await app.shop.erase(gone);
  await deliveries.send({ profileId, at: Date.now() - 60_000 }, { profileId, at: Date.now() + 30_000 });
  tool.answer = (res) => void res.end();
  deliveries.deliverer();
  await deliveries.settled();
  t.equal(tool.delivered.length, 3);
  const left = tool.delivered.filter(({ body }) => body.data.profileId === profileId);
  t.ok(left.length === 1 && Date.parse(left[0]?.body.timestamp) > Date.now(), 'the later event');
  t.match(await deliveries.status(), { delivered: 3, failures: 0, dead: 0 }, 'what is dropped is no failure');
});

const NOW = Date.now();
const at = (ago: number) => new Date(NOW - ago).toISOString();

/** 25 events of a receiver's types in ClickHouse, several per millisecond, none of them queued. */
async function openReplay(t: Test) {
  const pipeline = await pipelines.fresh();
  const deliveries = await openDeliveries(t, server, pipeline.prefix);
  const given = Array.from({ length: 25 }, (_, i) =>
    eventRow({ occurred_at: at(1_000 - Math.floor(i / 4)), profile_id: `7.p${i}`, payload: '{}' }),
  );
  const others = [eventRow({ occurred_at: at(60_000) }), eventRow({ type: 'share', occurred_at: at(1_000) })];
  await pipeline.append([...others, ...given]);
  await pipeline.flush();
  const { id } = await deliveries.receiver(await startTool(t), { types: ['add'] });
  const { store } = deliveries;
  const again = (receivers = deliveries.receivers) =>
    replay({ clickhouse: pipeline.clickhouse, store, receivers, id, since: NOW - 1_000, page: 10 });
  const queued = async () =>
    (await store.client.xrange(receiverKeys(store.keys).deliveries(id).queue, '-', '+')).map(
      ([, [, line = '']]) => JSON.parse(line).event_id as string,
    );
  return { ...deliveries, given, id, again, queued };
}

t.test(
  '`replay` queues each event since the given time once, in order, over pages, without erased visitors',
  async (t) => {
    const { store, given, again, queued } = await openReplay(t);
    await store.client.hset(store.keys.erasures, '7.p12', `${NOW} ${NOW}`);
    t.equal(await again(), 24);
    const expected = given.filter(({ profile_id }) => profile_id !== '7.p12');
    const timeOf = new Map(expected.map(({ event_id, occurred_at }) => [event_id, occurred_at]));
    const ids = await queued();
    t.same([...ids].sort(), [...timeOf.keys()].sort());
    const times = ids.map((id) => timeOf.get(id));
    t.same(times, [...times].sort());
  },
);

t.test('`replay` ends if its receiver is paused or removed while it waits for room', async (t) => {
  const { store, receivers, id, again } = await openReplay(t);
  const small = new Receivers(
    store,
    { RECEIVERS_PRIVATE: 'allow', RECEIVERS_HIGH_WATER: 1_000 },
    pino({ level: 'silent' }),
  );
  const pausing = again(small);
  const paused = sleep(300).then(() => receivers.change(id, { isEnabled: false }));
  await t.rejects(pausing, { message: /is disabled/ });
  await paused;
  await receivers.change(id, { isEnabled: true });
  const removing = again(small);
  const removed = sleep(300).then(() => receivers.remove(id));
  await t.rejects(removing, { message: /no receiver of this id/ });
  await removed;
  t.equal(await store.client.exists(...Object.values(receiverKeys(store.keys).deliveries(id))), 0);
});

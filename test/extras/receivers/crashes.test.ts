// Processes are killed between any two steps of a delivery: each event arrives at least once, under its one id. Failed
// deliveries are retried at the times of the contract, a failover forgets none, and an erased visitor's leave Redis.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Addresses } from '../../../src/extras/receivers/address.js';
import type { DeliverStep } from '../../../src/extras/receivers/attempt.js';
import { Connection } from '../../../src/extras/receivers/post.js';
import { DeliveryQueue } from '../../../src/extras/receivers/queue.js';
import { statusOf } from '../../../src/extras/receivers/queue-status.js';
import { Receivers } from '../../../src/extras/receivers/receivers.js';
import { replay } from '../../../src/extras/receivers/replay.js';
import { eraseWaiting } from '../../../src/flush/row-eraser.js';
import { createKeys, type Keys } from '../../../src/redis/keys.js';
import { FULL } from '../../faults/service.js';
import { appendEvents, eventRow } from '../../flush/fixtures.js';
import { openPipelines } from '../../flush/pipelines.js';
import { startApp } from '../../harness/app.js';
import { dumpRedis } from '../../harness/dump.js';
import { connectTo, startTestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import type { DeliverProcessSpec } from './deliver-process.js';
import { openDeliveries, startTool, type Tool } from './fixtures.js';

const DELIVER = new URL('./deliver-process.js', import.meta.url);
/** Of the process that is killed or frozen: it is so long that what it sends itself is settled in it. */
const LEASE_MS = 2_000;
const MAX_CONCURRENT_DELIVERIES = 16;
type QueueKeys = ReturnType<Keys['deliveries']>;
const server = await startTestRedis(t);
const pipelines = await openPipelines(t, server);
function startProcess(t: Test, program: URL, spec: object): ChildProcess {
  const child = fork(program, [JSON.stringify(spec)], { execArgv: [] });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}
const missing = (tool: Tool, sent: readonly string[]) => {
  const arrived = new Set(tool.delivered.map(({ id }) => id));
  return sent.filter((id) => !arrived.has(id));
};
for (const step of ['read', 'sent', 'settled'] satisfies DeliverStep[])
  for (const nth of FULL ? [1, 2, 7, 16, 17, 40] : [17])
    t.test(`a deliverer is killed when the ${nth}th was ${step}: each event arrives`, async (t) => {
      const prefix = `k${step}${nth}`;
      const deliveries = await openDeliveries(t, server, prefix);
      const tool = await startTool(t);
      await deliveries.receiver(tool);
      const sent = await deliveries.send(0, ...Array(100).fill({}));
      tool.answer = (res) => void setTimeout(() => res.end(), 3);
      const spec: DeliverProcessSpec = {
        ...{ redisUrls: server.urls, prefix, leaseMs: LEASE_MS },
        at: { step, nth: step === 'settled' ? Math.ceil(nth / 16) : nth, signal: 'SIGKILL' },
      };
      t.same(await once(startProcess(t, DELIVER, spec), 'exit'), [null, 'SIGKILL']);
      t.not(missing(tool, sent).length, 0, 'it was killed before the end');
      const before = tool.delivered.length;
      deliveries.deliverer();
      await until('all have arrived', () => missing(tool, sent).length === 0);
      t.ok(
        tool.delivered.length <= 100 + MAX_CONCURRENT_DELIVERIES,
        `${before} before, ${tool.delivered.length} in all`,
      );
      t.same(tool.faults, []);
    });
for (const step of ['read', 'sent'] satisfies DeliverStep[])
  t.test(`a deliverer is frozen when one was ${step}, and wakes up once another had its work`, async (t) => {
    const prefix = `f${step}`;
    const deliveries = await openDeliveries(t, server, prefix);
    const tool = await startTool(t);
    const { id } = await deliveries.receiver(tool);
    const sent = await deliveries.send(0, ...Array(300).fill({}));
    const spec: DeliverProcessSpec = {
      ...{ redisUrls: server.urls, prefix, leaseMs: LEASE_MS },
      at: { step, nth: 30, signal: 'SIGSTOP' },
    };
    const child = startProcess(t, DELIVER, spec);
    const [stopped] = await once(child, 'message');
    t.equal(stopped, 'stopping');
    deliveries.deliverer();
    await until('all have arrived', () => missing(tool, sent).length === 0);
    const { pending } = await until('nothing waits', async () => {
      const status = await deliveries.receivers.statusOf(id);
      return status.pending === 0 && status;
    });
    t.equal(pending, 0);
    child.kill('SIGCONT');
    const [, ...more] = await deliveries.send(0, ...Array(50).fill({}));
    await until('both go on', () => missing(tool, more).length === 0);
    t.ok(tool.delivered.length <= 350 + MAX_CONCURRENT_DELIVERIES, `${tool.delivered.length} in all`);
    t.same(tool.faults, []);
  });
t.test('what a process has in flight is given to no other, though it takes its time', async (t) => {
  const deliveries = await openDeliveries(t, server, 'beside');
  const tool = await startTool(t);
  const { id } = await deliveries.receiver(tool);
  const spec: DeliverProcessSpec = { redisUrls: server.urls, prefix: 'beside', leaseMs: 60_000 };
  tool.answer = (res) => void setTimeout(() => res.end(), 500);
  const sent = await deliveries.send(0, ...Array(100).fill({}));
  for (let i = 0; i < 2; i++) startProcess(t, DELIVER, spec);
  await until('both send', () => tool.mostAtOnce > MAX_CONCURRENT_DELIVERIES);
  await until('nothing waits', async () => (await deliveries.receivers.statusOf(id)).pending === 0);
  t.same(tool.delivered.map((one) => one.id).sort(), [...sent].sort());
});
const [S, MIN, H] = [1_000, 60_000, 3_600_000] as const;
const WAITS = [5 * S, 5 * MIN, 30 * MIN, 2 * H, 5 * H, 10 * H, 14 * H, 20 * H, 24 * H];
t.test(
  'what fails is tried again after the times of the contract, each with jitter, then it is dead',
  async (t) => {
    const deliveries = await openDeliveries(t, await startTestRedis(t), 'attempts');
    const tool = await startTool(t);
    const { id } = await deliveries.receiver(tool);
    tool.answer = (res) => void res.writeHead(500).end();
    await deliveries.send(0, {});
    const { client, keys } = deliveries.store;
    const { queue, taken, dead } = keys.deliveries(0, id);
    const [[entry] = ['']] = await client.xrange(queue, '-', '+');
    deliveries.deliverer({ retriesMs: undefined });
    const jitters: number[] = [];
    for (const [i, wait] of WAITS.entries()) {
      const score = await until(`attempt ${i + 1} has failed`, async () => {
        const score = Number(await client.zscore(taken, entry));
        return score % 16 === i + 1 && score;
      });
      const { lastFailureAt } = await deliveries.receivers.statusOf(id);
      const jitter = (Math.floor(score / 16) - lastFailureAt) / wait - 1;
      t.ok(jitter >= 0 && jitter <= 0.1 + 1 / wait, `${jitter} after attempt ${i + 1}`);
      jitters.push(jitter);
      await client.zadd(taken, i + 1, entry); // due long ago
    }
    t.ok(new Set(jitters).size > 1, 'not all the same');
    await until('it is a dead letter', async () => (await client.xlen(dead)) === 1);
    t.equal(tool.delivered.length, 10);
    t.equal(new Set(tool.delivered.map((one) => one.id)).size, 1);
  },
);
t.test('an answer may take 15 s', async (t) => {
  const tool = await startTool(t);
  const connection = new Connection(new Addresses(true));
  t.teardown(() => connection.close());
  const timers = t.capture(globalThis, 'setTimeout', globalThis.setTimeout);
  t.same(await connection.post(tool.url, {}, '{}'), { status: 200 });
  const longest = Math.max(...timers().map(({ args: [, ms = 0] }) => ms));
  t.ok(longest > 14_900 && longest <= 15_000, `${longest} ms`);
});
t.test(
  'an erased visitor is in no delivery, queued or dead, of any stream; what comes later is sent',
  async (t) => {
    const pipeline = await pipelines.fresh(2);
    const app = await startApp(t, server, { prefix: pipeline.prefix });
    const deliveries = await openDeliveries(t, server, pipeline.prefix);
    const tool = await startTool(t);
    tool.answer = (res) => void res.writeHead(500).end();
    const { id } = await deliveries.receiver(tool);
    const { client, keys } = deliveries.store;
    const [first, second] = [0, 1].map((stream) => keys.deliveries(stream, id)) as [QueueKeys, QueueKeys];
    const flusher = pipeline.flusher({ handOver: deliveries.handOver.handOver });
    const [gone, stays] = [{ sessionId: 's-gone-visitor' }, { sessionId: 's-stays' }];
    const { profileId } = await app.shop.event(gone);
    await app.shop.event(stays);
    await pipeline.drained();
    const deliverer = deliveries.deliverer({ retriesMs: [] });
    await until('both are dead letters', async () => (await client.xlen(first.dead)) === 2);
    await deliverer.close();
    await app.shop.event(gone);
    await app.shop.event(stays);
    await pipeline.drained();
    await flusher.close();
    await deliveries.send(1, { profileId }, {});
    for (const { queue } of [first, second]) t.equal(await client.xlen(queue), 2);

    await app.shop.erase(gone);
    const spec = { redis: client, keys, clickhouse: pipeline.clickhouse, log: pino({ level: 'silent' }) };
    await until('the erasure is done', async () => {
      await eraseWaiting({ ...spec, eraseDeliveries: deliveries.handOver.erase }, 0);
      return (await client.hlen(keys.erasures)) === 0;
    });
    for (const key of [first.queue, first.dead, second.queue]) t.equal(await client.xlen(key), 1);
    t.notMatch(JSON.stringify(await dumpRedis(server, pipeline.prefix)), /s-gone-visitor/);

    // An erasure that the eraser has not come to yet: only events from before it are left out.
    await app.shop.event(gone);
    await app.shop.erase(gone);
    await deliveries.send(0, { profileId, at: Date.now() - 60_000 }, { profileId, at: Date.now() + 60_000 });
    tool.delivered.length = 0;
    tool.answer = (res) => void res.end();
    deliveries.deliverer();
    await until('the rest has come', () => tool.delivered.length === 3);
    const left = tool.delivered.filter(({ body }) => body.data.profileId === profileId);
    t.ok(left.length === 1 && Date.parse(left[0]?.body.timestamp) > Date.now(), 'the later event');
  },
);
const NOW = Date.now();
const at = (ago: number) => new Date(NOW - ago).toISOString();
/** 25 events of one receiver's types in ClickHouse, several in each millisecond, of which none waits. */
async function open(t: Parameters<typeof openDeliveries>[0]) {
  const pipeline = await pipelines.fresh();
  const deliveries = await openDeliveries(t, server, pipeline.prefix);
  const given = Array.from({ length: 25 }, (_, i) =>
    eventRow({ occurred_at: at(1_000 - Math.floor(i / 4)), profile_id: `7.p${i}`, payload: '{}' }),
  );
  const others = [eventRow({ occurred_at: at(60_000) }), eventRow({ type: 'share', occurred_at: at(1_000) })];
  await appendEvents(pipelines.redis, pipeline.keys, 0, [...others, ...given]);
  const flusher = pipeline.flusher();
  await pipeline.drained();
  await flusher.close();
  const { id } = await deliveries.receiver(await startTool(t), { types: ['add'] });
  const { store } = deliveries;
  const again = (receivers = deliveries.receivers) =>
    replay({ clickhouse: pipeline.clickhouse, store, receivers, id, since: NOW - 1_000, page: 10 });
  const queued = async () =>
    (await store.client.xrange(store.keys.deliveries(0, id).queue, '-', '+')).map(
      ([, [, line = '']]) => JSON.parse(line).event_id as string,
    );
  return { ...deliveries, given, id, again, queued };
}
t.test('each event since then is queued once, in its order, over pages', async (t) => {
  const { given, again, queued } = await open(t);
  t.equal(await again(), 25);
  const timeOf = new Map(given.map(({ event_id, occurred_at }) => [event_id, occurred_at]));
  const ids = await queued();
  t.same([...ids].sort(), [...timeOf.keys()].sort());
  const times = ids.map((id) => timeOf.get(id));
  t.same(times, [...times].sort());
});
t.test('what was erased, and ClickHouse still has, is left out', async (t) => {
  const { store, given, again, queued } = await open(t);
  await store.client.hset(store.keys.erasures, '7.p12', `${NOW} ${NOW}`);
  t.equal(await again(), 24);
  t.notOk((await queued()).includes(given[12]?.event_id ?? ''));
});
for (const [what, end, message] of [
  ['removed', (all, id) => all.remove(id), /no receiver of this id/],
  ['paused', (all, id) => all.change(id, { isEnabled: false }), /is disabled/],
] satisfies readonly [string, (all: Receivers, id: string) => Promise<unknown>, RegExp][])
  t.test(`it ends where its receiver is ${what} while it waits for room`, async (t) => {
    const { store, receivers, id, again } = await open(t);
    const replaying = again(new Receivers(store, new Addresses(true), 1_000));
    const { queue, state } = store.keys.deliveries(0, id);
    const ended = sleep(300).then(async () => void (await end(receivers, id)));
    await t.rejects(replaying, { message });
    await ended;
    if (what === 'removed') t.equal(await store.client.exists(queue, state), 0);
  });

t.test('the scripts of a queue', async (t) => {
  const redis = connectTo(t, (await startTestRedis(t)).url);
  const LONG_MS = 600_000;
  let opened = 0;
  async function open() {
    const keys = createKeys(`q${opened++}`);
    await redis.hset(keys.receivers, 'r', '{}');
    const queue = new DeliveryQueue(redis, keys, { stream: 0, receiver: 'r' }, 1_000);
    const take = (count = 10, leaseMs = LONG_MS) => queue.take(count, leaseMs);
    return { keys, queue, take };
  }
  t.test('for how long the delivery has waited that is due for longest', async (t) => {
    const { queue, take } = await open();
    const late = async () => statusOf([await queue.state()]).lateMs;
    t.equal(await late(), 0, 'nothing waits');
    await queue.add(['a', 'b']);
    await sleep(50);
    t.ok((await late()) >= 50, 'what nobody has taken');
    await take();
    t.equal(await late(), 0, 'all of it is in flight');
    await queue.add(['c']);
    const [c] = (await take(1, 0)).map(({ id }) => id);
    await sleep(50);
    t.ok((await late()) >= 50, 'of which the lease has ended');
    await queue.settle([{ id: c ?? '', outcome: 'again', attempts: 1, againInMs: 60_000, why: 'x' }]);
    t.equal(await late(), 0, 'what has failed is not due yet');
  });
  t.test(
    'a failover that forgot what was taken and settled: it is taken again, and nothing is left out',
    async (t) => {
      const { keys, queue, take } = await open();
      const touched = Object.values(keys.deliveries(0, 'r'));
      await queue.add(['a', 'b', 'c']);
      await take(1);
      const before = await Promise.all(touched.map((key) => redis.dumpBuffer(key)));
      const [b, c] = (await take()).map(({ id }) => id) as [string, string];
      await queue.settle([{ id: b, outcome: 'done' }]);
      await queue.settle([{ id: c, outcome: 'again', attempts: 1, againInMs: LONG_MS, why: 'x' }]);
      await redis.del(...touched);
      for (const [i, key] of touched.entries())
        if (before[i] !== null) await redis.restore(key, 0, before[i] as Buffer);
      await queue.add(['d']);
      t.match(await take(), [{ line: 'b' }, { line: 'c' }, { line: 'd' }]);
    },
  );
  t.test('the last hour is counted in steps of five minutes, and older steps are left out', async (t) => {
    const { keys, queue, take } = await open();
    await queue.add(['a', 'b', 'c', 'd']);
    const [a, b, c, d] = (await take()).map(({ id }) => id) as [string, string, string, string];
    const settle = (id: string, outcome: 'done' | 'again' | 'dead') => ({
      id,
      outcome,
      attempts: 1,
      why: 'x',
    });
    await queue.settle([settle(a, 'done'), settle(b, 'again')]);
    await queue.settle([settle(b, 'dead'), settle(c, 'done')]);
    await queue.settle([{ id: d, outcome: 'drop' }]);
    t.match(statusOf([await queue.state()]), {
      deliveredInHour: 2,
      failuresInHour: 2,
      delivered: 2,
      failures: 2,
    });

    // As if it had been counted so many steps earlier.
    const { state } = keys.deliveries(0, 'r');
    const slots = Array.from({ length: 13 }, (_, i) => `recent${i}`);
    const [counted = ''] = (await redis.hmget(state, ...slots)).filter((one) => one !== null);
    const step = Number(counted.split(' ')[0]);
    const set = async (ago: number) => {
      await redis.hdel(state, ...slots);
      await redis.hset(state, `recent${(step - ago) % 13}`, `${step - ago} 2 2`);
    };
    await set(11);
    t.match(statusOf([await queue.state()]), { deliveredInHour: 2, failuresInHour: 2 });
    await set(13);
    t.match(statusOf([await queue.state()]), { deliveredInHour: 0, failuresInHour: 0 });
    await queue.add(['e']);
    const e = (await take()).map(({ id }) => id).at(-1) as string;
    await queue.settle([settle(e, 'done')]);
    t.match(
      statusOf([await queue.state()]),
      { deliveredInHour: 1, failuresInHour: 0, delivered: 3 },
      'its slot begins anew',
    );
  });
});

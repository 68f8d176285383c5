// The scripts of a queue: what is taken, in which order and for how long, and what is settled.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { DeliveryQueue } from '../../src/receivers/queue.js';
import { standOf } from '../../src/receivers/stand.js';
import { createKeys } from '../../src/redis/keys.js';
import { connectTo, startTestRedis } from '../harness/redis.js';

const redis = connectTo(t, (await startTestRedis(t)).url);
const LONG_MS = 600_000;
let opened = 0;

async function open() {
  const keys = createKeys(`q${opened++}`);
  await redis.hset(keys.receivers, 'r', '{}');
  const queue = new DeliveryQueue(redis, keys, 0, 'r', 1_000);
  const take = (count = 10, leaseMs = LONG_MS) => queue.take(count, leaseMs);
  return { keys, queue, take };
}

t.test('for how long the delivery has waited that is due for longest', async (t) => {
  const { queue, take } = await open();
  const late = async () => standOf([await queue.state()]).lateMs;
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

t.test('since when every attempt has failed: from the first failure after a success on', async (t) => {
  const { queue, take } = await open();
  await queue.add(['a', 'b']);
  const [a, b] = (await take()).map(({ id }) => id) as [string, string];
  const settle = (id: string, outcome: 'done' | 'again') =>
    queue.settle([{ id, outcome, attempts: 1, againInMs: 1, why: 'x' }]);
  const since = await settle(a, 'again');
  t.ok(since > 0);
  t.equal(await settle(a, 'again'), since);
  t.equal(await settle(b, 'done'), 0);
  t.ok((await settle(a, 'again')) >= since);
  await queue.forgive();
  t.equal(await redis.hget(createKeys(`q${opened - 1}`).deliveries(0, 'r').state, 'failingSince'), null);
});

t.test('a receiver that is gone gets no figures from what was in flight', async (t) => {
  const { queue, take } = await open();
  await queue.add(['a']);
  const [held] = await take();
  await queue.clear();
  t.equal(await queue.settle([{ id: held?.id ?? '', outcome: 'dead', why: 'x' }]), 0);
  t.equal(await redis.exists(...Object.values(createKeys(`q${opened - 1}`).deliveries(0, 'r'))), 0);
});

t.test('the last hour is counted in steps of five minutes, and older steps are left out', async (t) => {
  const { keys, queue, take } = await open();
  await queue.add(['a', 'b', 'c', 'd']);
  const [a, b, c, d] = (await take()).map(({ id }) => id) as [string, string, string, string];
  const settle = (id: string, outcome: 'done' | 'again' | 'dead') => ({ id, outcome, attempts: 1, why: 'x' });
  await queue.settle([settle(a, 'done'), settle(b, 'again')]);
  await queue.settle([settle(b, 'dead'), settle(c, 'done')]);
  await queue.settle([{ id: d, outcome: 'drop' }]);
  t.match(standOf([await queue.state()]), {
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
  t.match(standOf([await queue.state()]), { deliveredInHour: 2, failuresInHour: 2 });
  await set(13);
  t.match(standOf([await queue.state()]), { deliveredInHour: 0, failuresInHour: 0 });
  await queue.add(['e']);
  const e = (await take()).map(({ id }) => id).at(-1) as string;
  await queue.settle([settle(e, 'done')]);
  t.match(
    standOf([await queue.state()]),
    { deliveredInHour: 1, failuresInHour: 0, delivered: 3 },
    'its slot begins anew',
  );
});

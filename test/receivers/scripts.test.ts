// The scripts of a queue: what an owner reads and settles, in which order, and that an older owner does neither.

import t from 'tap';
import { FencedError, Ownership } from '../../src/flush/ownership.js';
import { DeliveryQueue } from '../../src/receivers/queue.js';
import { standOf } from '../../src/receivers/stand.js';
import { createKeys } from '../../src/redis/keys.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const redis = connectTo(t, (await startTestRedis(t)).url);
let opened = 0;

async function open() {
  const keys = createKeys(`q${opened++}`);
  await redis.hset(keys.receivers, 'r', '{}');
  const queue = new DeliveryQueue(redis, keys, 0, 'r', 1_000);
  const ownership = new Ownership(redis, keys.deliveryOwner(0));
  const epoch = (await ownership.claim('a', undefined, 1_000))?.epoch ?? '';
  const read = async (after = '-') => (await queue.next(epoch, after, 10)).found;
  return { keys, queue, epoch, read };
}

t.test('what was read is not read again; what failed is when it is due, with its attempts', async (t) => {
  const { queue, epoch, read } = await open();
  await queue.add(['a', 'b', 'c']);
  const { last, found } = await queue.next(epoch, '-', 10);
  t.same(
    found.map(({ line, attempts }) => [line, attempts]),
    [
      ['a', 0],
      ['b', 0],
      ['c', 0],
    ],
  );
  t.same(await read(last), []);
  const [a, b, c] = found.map(({ id }) => id) as [string, string, string];
  await queue.settle(epoch, [
    { id: a, outcome: 'done' },
    { id: b, outcome: 'again', attempts: 3, againInMs: 60_000, why: 'x' },
    { id: c, outcome: 'again', attempts: 1, againInMs: 0, why: 'y' },
  ]);
  // As an owner reads that has just begun.
  await until('it is due', async () => (await read()).length > 0);
  t.same(await read(), [{ id: c, attempts: 1, line: 'c' }]);
  t.match(standOf([await queue.state()]), {
    pending: 2,
    bytes: 2,
    delivered: 1,
    failures: 2,
    dead: 0,
    lastError: 'y',
  });
});

t.test('since when every attempt has failed: from the first failure after a success on', async (t) => {
  const { queue, epoch, read } = await open();
  await queue.add(['a', 'b']);
  const [a, b] = (await read()).map(({ id }) => id) as [string, string];
  const settle = (id: string, outcome: 'done' | 'again') =>
    queue.settle(epoch, [{ id, outcome, attempts: 1, againInMs: 1, why: 'x' }]);
  const since = await settle(a, 'again');
  t.ok(since > 0);
  t.equal(await settle(a, 'again'), since);
  t.equal(await settle(b, 'done'), 0);
  t.ok((await settle(a, 'again')) >= since);
  await queue.forgive();
  t.equal(await redis.hget(createKeys(`q${opened - 1}`).deliveries(0, 'r').state, 'failingSince'), null);
});

t.test('an owner of an older epoch reads and settles nothing', async (t) => {
  const { queue, epoch, read } = await open();
  await queue.add(['a']);
  const [held] = await read();
  await redis.hset(createKeys(`q${opened - 1}`).deliveryOwner(0), 'epoch', '99999999999999');
  await t.rejects(read(), FencedError);
  await t.rejects(queue.settle(epoch, [{ id: held?.id ?? '', outcome: 'done' }]), FencedError);
  t.match(standOf([await queue.state()]), { pending: 1, delivered: 0 });
});

t.test('a receiver that is gone gets no figures from what was in flight', async (t) => {
  const { queue, epoch, read } = await open();
  await queue.add(['a']);
  const [held] = await read();
  await queue.clear();
  t.equal(await queue.settle(epoch, [{ id: held?.id ?? '', outcome: 'dead', why: 'x' }]), 0);
  t.equal(await redis.exists(...Object.values(createKeys(`q${opened - 1}`).deliveries(0, 'r'))), 0);
});

t.test('the last hour is counted in steps of five minutes, and older steps are left out', async (t) => {
  const { keys, queue, epoch, read } = await open();
  await queue.add(['a', 'b', 'c', 'd']);
  const [a, b, c, d] = (await read()).map(({ id }) => id) as [string, string, string, string];
  const settle = (id: string, outcome: 'done' | 'again' | 'dead') => ({ id, outcome, attempts: 1, why: 'x' });
  await queue.settle(epoch, [settle(a, 'done'), settle(b, 'again')]);
  await queue.settle(epoch, [settle(b, 'dead'), settle(c, 'done')]);
  await queue.settle('', [{ id: d, outcome: 'drop' }]);
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
  const e = (await read()).map(({ id }) => id).at(-1) as string;
  await queue.settle(epoch, [settle(e, 'done')]);
  t.match(
    standOf([await queue.state()]),
    { deliveredInHour: 1, failuresInHour: 0, delivered: 3 },
    'its slot begins anew',
  );
});

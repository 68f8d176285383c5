// The clock of a node: the sample with the shortest round trip counts, and callers of one moment share a measurement.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { RedisClock } from '../../src/redis/clock.js';
import { connectTo } from '../harness/dump.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis } from '../harness/redis.js';

t.test('it tells the time of Redis', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const clock = new RedisClock();
  await clock.measure(client);
  // Both clocks are this machine's.
  t.ok(Math.abs(clock.at(performance.now()) - Date.now()) < 100);
});

t.test('a slow sample does not count', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const proxy = await startProxy(t, redis.url);
  const client = connectTo(proxy.url);
  t.teardown(() => client.disconnect());
  await client.ping();
  const clock = new RedisClock();
  let calls = 0;
  // The replies of all samples but one come a second late: by the middle of their round trip the clock would be half a
  // second off.
  await clock.measure({
    async time() {
      const reply = await client.time();
      if (++calls !== 3) await sleep(1_000);
      return reply;
    },
  } as Pick<typeof client, 'time'>);
  t.equal(calls, 5);
  t.ok(Math.abs(clock.at(performance.now()) - Date.now()) < 250);
});

t.test('callers of one moment share a measurement, later ones do not', async (t) => {
  let calls = 0;
  const clock = new RedisClock();
  const node = { time: async () => [++calls, 0] } as unknown as Parameters<RedisClock['measure']>[0];
  await Promise.all([clock.measure(node), clock.measure(node)]);
  t.equal(calls, 5);
  await clock.measure(node);
  t.equal(calls, 10);
  const failing = { time: () => Promise.reject(new Error('away')) } as unknown as typeof node;
  await t.rejects(clock.measure(failing), { message: 'away' });
  await clock.measure(node);
  t.equal(calls, 15, 'a failed one is not kept');
});

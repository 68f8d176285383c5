// A deadline of ours is no wait beyond it, and yet a reply that is in the socket by then counts.

import t from 'tap';
import { before } from '../../src/redis/deadline.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

t.test('a reply in the socket beats the timer', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  await client.ping();
  for (let round = 0; round < 5; round++) {
    const answer = before(performance.now() + 20, client.ping());
    // Redis answers while this process is busy for longer than the deadline.
    const until = performance.now() + 200;
    while (performance.now() < until);
    t.equal(await answer, 'PONG');
  }
});

t.test('what has no reply is unavailable at its deadline', async (t) => {
  const began = performance.now();
  await t.rejects(before(began + 50, new Promise(() => {})), { code: 'unavailable' });
  t.ok(performance.now() - began >= 49);
  await t.rejects(before(began - 1, new Promise(() => {})), { code: 'unavailable' }, 'one that is past');
  await t.rejects(before(began + 1_000_000, Promise.reject(new Error('other'))), { message: 'other' });
  t.equal(await before(began + 1_000_000, Promise.resolve(1)), 1);
});

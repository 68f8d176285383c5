// INFO errorstats is what operators alarm on. Serving visitors, guests and linked ones, raises no WRONGTYPE, but for
// the first time that a server meets an identity that is not at home: its guess at the door is wrong once.

import type { Redis } from 'ioredis';
import t from 'tap';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
const TIMES = 4;

async function errorsOf(client: Redis): Promise<Record<string, number>> {
  const info = await client.info('errorstats');
  return Object.fromEntries(
    [...info.matchAll(/^errorstat_(\w+):count=(\d+)/gm)].map(([, name, count]) => [name, Number(count)]),
  );
}

t.test('what visitors do raises no error in Redis', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const app = await startApp(t, redis);
  const visitors = [
    { sessionId: 'only' },
    { customerId: 'only' },
    { sessionId: 'adopted', customerId: 'c-1' },
    { sessionId: 'merged', customerId: 'c-2' },
    { sessionId: 'adopted' },
    { sessionId: 'merged' },
    { customerId: 'c-1' },
    { customerId: 'c-2' },
  ];
  const post = async (path: string, body: object, headers = {}) => {
    const answer = await app.post(path, body, { ...TRUSTED, ...headers });
    t.equal(answer.status, 200, `${path}: ${answer.text}`);
  };
  let keys = 0;
  const everything = async () => {
    for (const identity of visitors) {
      const visit = { identity, productHandle: 'x' };
      for (let i = 0; i < TIMES; i++) {
        await post(PATH, visit);
        await post(`${PATH}?count=true`, visit);
        await post(PATH, visit, { 'idempotency-key': `k${keys++}` });
        const query = new URLSearchParams({ ...identity, productHandle: 'x' } as Record<string, string>);
        t.equal((await app.get(`${PATH}?${query}`, TRUSTED)).status, 200);
        await post('/item/add', itemOf(identity, { quantity: i + 1 }));
        await post('/item/list', { identity });
        await post('/item/remove', { identity, productId: '1001', variantId: '2002' });
        await post('/share', { identity });
        await post('/event', { identity, type: 'add' });
        await post('/event', { identity, type: 'add' }, { 'idempotency-key': `k${keys++}` });
        t.equal((await app.del(PATH, visit, TRUSTED)).status, 200);
      }
    }
  };
  for (const sessionId of ['adopted', 'merged'])
    await post(PATH, { identity: { sessionId }, productHandle: 'x' });
  await post(PATH, { identity: { customerId: 'c-2' }, productHandle: 'x' });
  await everything();
  const warm = await errorsOf(client);
  t.ok(
    (warm['WRONGTYPE'] ?? 0) <= visitors.length,
    `${JSON.stringify(warm)}: once for each identity at most`,
  );
  await everything();
  t.same(await errorsOf(client), warm, 'and then never again');
});

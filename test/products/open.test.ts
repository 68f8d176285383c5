// Products that a process left half done: more of them than one look takes up, and one that fails at each try.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { startApp } from '../harness/app.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { ALERTS, product } from './fixtures.js';

const LEFT = 2_300;

t.test('products left open are all done, and one that fails is seen in the figures', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const prefix = 'open';
  const { products } = createKeys(prefix);
  const ids = Array.from({ length: LEFT }, (_, i) => String(1_000 + i));
  const written = ids.flatMap((id) => [id, `1 0\n${JSON.stringify({ ...product('1.00'), productId: id })}`]);
  await client.hset(products, ...written, 'faulty', '1 0\nno product');
  const failures: string[] = [];
  const app = await startApp(t, redis, {
    ...{ prefix, env: ALERTS, timing: { productLookMs: 50 } },
    onError: (line) => failures.push(line),
  });
  await until('all others are struck out', async () => (await client.hlen(products)) === 1);
  t.equal(await app.figure('products_open'), 1);
  await until(
    'its age grows from look to look',
    async () => ((await app.figure('products_oldest_open_seconds')) ?? 0) > 1,
  );
  t.ok(failures.length > 0, 'its failure is logged');
  await client.hdel(products, 'faulty');
  t.equal(await app.figure('products_open'), 0);
  t.equal(await app.figure('products_oldest_open_seconds'), 0);
});

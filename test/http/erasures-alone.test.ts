// An erasure that fails stops no other, is counted and logged, and is tried again: requests of compliance webhooks, erasures
// that a process has left half done, and DELETE of a visitor beside them. What fails here is a key of a wrong type.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { startServer } from '../wishlist/fixtures.js';
import { JSON_TYPE, SECRET, sign } from './orders.js';

t.test('a compliance request that fails leaves the others to be done, and is done later', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const logged: string[] = [];
  const app = await startApp(t, redis, {
    env: { SHOPIFY_SECRET: SECRET },
    timing: { compliancePollMs: 20 },
    onError: (line) => logged.push(line),
  });
  const keys = createKeys(app.prefix);
  const redact = (id: number) => {
    const text = JSON.stringify({ shop_domain: 'a.myshopify.com', customer: { id } });
    return app.post('/webhook/customers/redact', text, {
      ...JSON_TYPE,
      'x-shopify-topic': 'customers/redact',
      'x-shopify-hmac-sha256': sign(text),
      'x-shopify-webhook-id': `redact-${id}`,
    });
  };
  const ids = [1, 2, 3];
  const [broken = '', ...others] = await Promise.all(
    ids.map(async (id) => (await app.shop.visit({ customerId: String(id) })).profileId),
  );
  await client.del(keys.members(broken));
  await client.set(keys.members(broken), 'no hash');
  for (const id of ids) t.equal((await redact(id)).status, 200);
  for (const profileId of others)
    await until('the others are erased', async () => (await client.exists(keys.profile(profileId))) === 0);
  await until(
    'it was tried again',
    async () => Number(await app.figure('task_failures_total{task="request"}')) > 1,
  );
  t.equal(await client.exists(keys.profile(broken)), 1);
  t.match(logged[0], /"task":"request".*a task failed and will be tried again/);
  await client.del(keys.members(broken));
  await until('and is erased in the end', async () => (await client.exists(keys.profile(broken))) === 0);
});

t.test('an erasure by e-mail address that fails for one visitor erases the others', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const logged: string[] = [];
  const app = await startApp(t, redis, { onError: (line) => logged.push(line) });
  const keys = createKeys(app.prefix);
  const email = 'many@rights.shop';
  const profiles: string[] = [];
  for (const sessionId of ['a', 'b', 'c'])
    profiles.push((await app.shop.add({ sessionId, email })).profileId);
  const [first = '', ...others] = profiles.sort();
  const members = await client.hgetall(keys.members(first));
  await client.del(keys.members(first));
  await client.set(keys.members(first), 'no hash');
  const erase = () => app.del('/profile', { identity: { email } }, TRUSTED);
  t.equal((await erase()).status, 500);
  t.match(logged, [/request failed/]);
  const left = await client.exists(...others.map((profileId) => keys.profile(profileId)));
  t.equal(left, 0, 'the others are erased');
  await client.del(keys.members(first));
  await client.hset(keys.members(first), members);
  t.match(await erase(), { status: 200, json: { erased: true } });
  t.equal(await client.exists(keys.profile(first)), 0);
});

t.test('a compliance request that can not be read stops no other, is counted and stays', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const logged: string[] = [];
  const app = await startApp(t, redis, {
    timing: { compliancePollMs: 20 },
    onError: (line) => logged.push(line),
  });
  const keys = createKeys(app.prefix);
  await client.hset(keys.compliance, { '1': 'no JSON', '#': '1' });
  const { profileId } = await app.shop.visit({ customerId: '1' });
  const topic = { ...TRUSTED, ...JSON_TYPE, 'x-shopify-webhook-id': 'w' };
  t.equal((await app.post('/webhook/customers/redact', { customer: { id: 1 } }, topic)).status, 200);
  await until('it is erased', async () => (await client.exists(keys.profile(profileId))) === 0);
  t.ok(Number(await app.figure('task_failures_total{task="request"}')) > 0);
  t.match(logged[0], /The open request 1 can't be read/);
  t.equal(await client.hget(keys.compliance, '1'), 'no JSON');
});

t.test('an interrupted erasure that fails leaves others to be completed, and DELETE alone', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const app = await startApp(t, redis);
  const server = await startServer(t, redis, app.prefix);
  const keys = createKeys(app.prefix);
  const interrupted = async (name: string) => {
    const [profileId, generation] = [`0.${name}`, 'generation'];
    await client.zadd(keys.pending(0), 'NX', String(Date.now()), `erase ${profileId} ${generation}`);
    return keys.leftovers(profileId, generation);
  };
  await client.set(await interrupted('broken'), 'no hash');
  const left = await interrupted('fine');
  await client.hset(left, { '': String(Date.now()), 'c:9': '', '#code': '' });
  await client.set(keys.share('code'), '0.fine');
  t.match(await app.del('/profile', { identity: { customerId: 'nobody' } }, TRUSTED), {
    status: 200,
    json: { erased: false },
  });
  t.equal(await client.exists(left), 1, 'it completes no erasure of another visitor');
  for (let look = 0; look < 2; look++) await server.resume.run();
  t.equal(await client.exists(left, keys.share('code')), 0, 'the other one is completed');
  t.same(await client.zrange(keys.pending(0), '0', '-1'), ['erase 0.broken generation']);
});

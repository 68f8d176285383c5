// What is drawn once for a deployment (lua/open.lua), and the Redis that a start refuses.

import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { StartupError } from '../../src/errors.js';
import { openDeployment, SCHEMA } from '../../src/redis/deployment.js';
import { createKeys } from '../../src/redis/keys.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { connectTo } from '../harness/dump.js';
import { startTestCluster, startTestRedis } from '../harness/redis.js';

const OPTIONS = {
  name: 'test',
  timeoutMs: 500,
  keyPrefix: 'd',
  buckets: 16,
  eventShards: 2,
  onError: () => {},
};

t.test('a deployment', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const keys = createKeys('d');

  t.test('is drawn at the first start and then the same for everybody', async (t) => {
    const opened = await Promise.all(
      Array.from({ length: 10 }, () => openDeployment(client, keys, { buckets: 16, eventShards: 2 })),
    );
    t.match(opened[0], { buckets: 16, salt: /^[0-9a-f]{64}$/ });
    for (const { shards } of opened) t.equal(shards.current, 2, 'at once');
    t.equal(new Set(opened.map(({ salt }) => salt)).size, 1);
    t.same(Object.keys(await client.hgetall(keys.meta)).sort(), ['buckets', 'salt', 'schema', 'shards']);
  });

  t.test('has another salt under another prefix', async (t) => {
    const [one, other] = [
      await openDeployment(client, keys, OPTIONS),
      await openDeployment(client, createKeys('d2'), OPTIONS),
    ];
    t.not(one.salt, other.salt);
  });

  t.test('shards only grow, so that all that were ever used go on being flushed', async (t) => {
    t.equal((await openDeployment(client, keys, { buckets: 16, eventShards: 5 })).shards.all, 5);
    t.equal((await openDeployment(client, keys, { buckets: 16, eventShards: 1 })).shards.all, 5);
  });

  t.test('a start with another bucket count is refused, and changes nothing', async (t) => {
    const before = await client.hgetall(keys.meta);
    await t.rejects(openDeployment(client, keys, { buckets: 32, eventShards: 1 }), {
      name: 'StartupError',
      message: "BUCKETS is 32, but this data was made with 16, which can't change.",
    });
    t.same(await client.hgetall(keys.meta), before);
  });

  t.test('data of a newer schema is refused', async (t) => {
    await client.hset(keys.meta, 'schema', SCHEMA + 1);
    await t.rejects(openDeployment(client, keys, OPTIONS), {
      name: 'StartupError',
      message: /start a newer version/,
    });
    await client.hset(keys.meta, 'schema', SCHEMA);
  });
});

t.test('a Redis that does not answer is one sentence', async (t) => {
  const options: StoreOptions = { ...OPTIONS, urls: [`redis://127.0.0.1:${await freePort()}`] };
  const error = await Store.open(options).catch((error: unknown) => error);
  t.ok(error instanceof StartupError);
  t.match(error, { message: /^Redis does not answer: .*\.$/ });
});

t.test('one node of a cluster alone is refused', async (t) => {
  const cluster = await startTestCluster();
  t.teardown(() => cluster.stop());
  await t.rejects(Store.open({ ...OPTIONS, urls: cluster.urls.slice(0, 1) }), {
    name: 'StartupError',
    message: /names one node of a Redis Cluster/,
  });
  const store = await Store.open({ ...OPTIONS, urls: cluster.urls.slice(0, 2) });
  t.equal(store.isCluster, true);
  await store.ping();
  store.close();
});

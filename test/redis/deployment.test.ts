// What is drawn once for a deployment (lua/open.lua), and the Redis that a start refuses: one that does not answer, and a
// cluster that is not ready.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { StartupError } from '../../src/errors.js';
import { openDeployment, SCHEMA } from '../../src/redis/deployment.js';
import { createKeys } from '../../src/redis/keys.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { ping } from '../harness/store.js';
import { until } from '../harness/until.js';

/** A slot of the cluster that is left without a master. */
const SLOT = 5;
const OPTIONS = {
  name: 'test',
  timeoutMs: 500,
  keyPrefix: 'd',
  buckets: 16,
  onError: () => {},
};

t.test('a deployment', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const keys = createKeys('d');

  t.test('is drawn at the first start and then the same for everybody', async (t) => {
    const opened = await Promise.all(Array.from({ length: 10 }, () => openDeployment(client, keys, {})));
    t.match(opened[0], { salt: /^[0-9a-f]{64}$/ });
    t.equal(new Set(opened.map(({ salt }) => salt)).size, 1);
    t.same(Object.keys(await client.hgetall(keys.meta)).sort(), ['salt', 'schema']);
  });

  t.test('has another salt under another prefix', async (t) => {
    const [one, other] = [
      await openDeployment(client, keys, OPTIONS),
      await openDeployment(client, createKeys('d2'), OPTIONS),
    ];
    t.not(one.salt, other.salt);
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

t.test('a Redis that is frozen for a moment is waited for', async (t) => {
  const redis = await startTestRedis(t);
  const pid = redis.pids[0] as number;
  process.kill(pid, 'SIGSTOP');
  const opening = Store.open({ ...OPTIONS, urls: redis.urls });
  await sleep(700);
  process.kill(pid, 'SIGCONT');
  const store = await opening;
  await ping(store);
  store.close();
});

t.test('a Redis Cluster', async (t) => {
  const cluster = await startTestCluster(t);
  t.test('one of its URLs is enough', async (t) => {
    const store = await Store.open({ ...OPTIONS, urls: cluster.urls.slice(0, 1) });
    t.equal(store.isOneServer, false);
    await ping(store);
    store.close();
  });

  const nodes = connectToEach(t, cluster.urls);

  t.test('the user of its URLs is asked as at every node', async (t) => {
    const rights = ['on', '>secret', 'allkeys', 'allchannels', 'allcommands'];
    for (const node of nodes) await node.call('ACL', 'SETUSER', 'shop', ...rights);
    const urls = cluster.urls.map((url) => url.replace('//', '//shop:secret@'));
    const store = await Store.open({ ...OPTIONS, urls });
    t.teardown(() => store.close());
    const masters = (store.client as Cluster).nodes('master');
    const users = await Promise.all(masters.map((node) => node.call('ACL', 'WHOAMI')));
    t.same(users, ['shop', 'shop', 'shop']);
  });

  const owner = nodes[0] as Redis;
  const states = () => Promise.all(nodes.map(async (node) => String(await node.call('CLUSTER', 'INFO'))));
  const breakIt = async () => {
    await until('it is not ok', async () => {
      // Again and again: a message on its way may tell one of them who had it.
      for (const node of nodes) await node.call('CLUSTER', 'DELSLOTS', String(SLOT)).catch(() => {});
      return (await states()).every((info) => info.includes('cluster_state:fail'));
    });
  };
  const mendIt = async () => {
    await owner.call('CLUSTER', 'ADDSLOTS', String(SLOT));
    await until('it is ok', async () => (await states()).every((info) => info.includes('cluster_state:ok')));
  };
  const open = (keyPrefix: string) =>
    Store.open({ ...OPTIONS, urls: cluster.urls, timeoutMs: 2_000, keyPrefix });

  t.test('one that becomes ready in a moment is waited for', async (t) => {
    await breakIt();
    const opening = open('moment');
    await sleep(500);
    await mendIt();
    const store = await opening;
    t.teardown(() => store.close());
    t.equal(await store.call((client) => client.hexists(createKeys('moment').meta, 'salt')), 1);
  });

  t.test('one that does not is told in a sentence', async (t) => {
    await breakIt();
    await t.rejects(open('never'), {
      message: 'The Redis Cluster is not ready: its cluster_state is not ok.',
    });
    await mendIt();
  });
});

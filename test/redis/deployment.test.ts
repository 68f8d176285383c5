// What is drawn once for a deployment (lua/open.lua); the number of streams of events, which is raised while processes run; and
// the Redis that a start refuses: one that does not answer, a node alone, and a cluster that is not ready.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { StartupError } from '../../src/errors.js';
import { openDeployment, SCHEMA } from '../../src/redis/deployment.js';
import { EventShards, shardOf } from '../../src/redis/event-shards.js';
import { createKeys } from '../../src/redis/keys.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { wishmeter } from '../cli/wishmeter.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

/** A slot of the cluster that is left without a master. */
const SLOT = 5;
const OPTIONS = {
  name: 'test',
  timeoutMs: 500,
  keyPrefix: 'd',
  buckets: 16,
  eventShards: 2,
  onError: () => {},
};

const VISITORS = Array.from({ length: 6_000 }, (_, i) => `${i % 97}.visitor${i}`);

t.test('a deployment', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const keys = createKeys('d');

  t.test('is drawn at the first start and then the same for everybody', async (t) => {
    const opened = await Promise.all(
      Array.from({ length: 10 }, () => openDeployment(client, keys, { eventShards: 2 })),
    );
    t.match(opened[0], { salt: /^[0-9a-f]{64}$/ });
    for (const { shards } of opened) t.equal(shards.current, 2, 'at once');
    t.equal(new Set(opened.map(({ salt }) => salt)).size, 1);
    t.same(Object.keys(await client.hgetall(keys.meta)).sort(), ['salt', 'schema', 'shards']);
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

  let deployments = 0;
  const deployment = async (eventShards: number) => {
    const keys = createKeys(`s${++deployments}`);
    const { shards } = await openDeployment(client, keys, { buckets: 16, eventShards });
    const stop = shards.watch();
    t.teardown(stop);
    return { keys, shards };
  };

  t.test('a raise is known to every process before it holds, and then holds for all', async (t) => {
    const { keys, shards } = await deployment(2);
    const other = await EventShards.open(client, keys);
    t.teardown(other.watch());
    const raising = await EventShards.open(client, keys);
    const before = Date.now();
    await raising.raise(4, 60_000);
    await until('both know', () => shards.all === 4 && other.all === 4);
    t.same([shards.current, other.current, raising.current], [2, 2, 2], 'a minute ahead');
    t.same(
      shards.raises.map((raise) => raise.shards),
      [2, 4],
    );
    t.ok((shards.raises[1]?.at ?? 0) > before + 30_000, 'by the clock of Redis');
    await raising.raise(6, 0);
    t.ok((raising.raises[2]?.at ?? 0) >= (raising.raises[1]?.at ?? 0), 'a second raise does not overtake');

    const soon = await deployment(1);
    const late = await EventShards.open(client, soon.keys);
    await late.raise(3, 300);
    await until('it holds where it was raised', () => late.current === 3);
    t.ok(late.now() >= (late.raises[1]?.at ?? 0), 'not before its moment');
    await until('it holds where it was heard of', () => soon.shards.current === 3);
  });

  t.test('it does not fall, and what was there before there were raises is as it was', async (t) => {
    const { keys, shards } = await deployment(4);
    await shards.raise(2, 0);
    t.same(shards.raises, [{ shards: 4, at: 0 }]);
    await client.hset(keys.meta, 'shards', 7);
    await client.hdel(keys.meta, 'raises');
    t.same((await EventShards.open(client, keys)).raises, [{ shards: 7, at: 0 }]);
    t.same(
      (await EventShards.open(client, createKeys('nothing'), 3)).raises,
      [],
      'where nothing is, it makes nothing',
    );
    t.equal(await client.exists(createKeys('nothing').meta), 0);
  });

  t.test('`wishmeter shards` tells it, and raises it', async (t) => {
    const { keys } = await deployment(1);
    const run = (...args: string[]) =>
      wishmeter({ args: ['shards', ...args], env: { REDIS_URL: redis.url, KEY_PREFIX: `s${deployments}` } });
    t.match(await run(), { code: 0, stdout: '1\n', stderr: '' });
    t.match(await run('3'), { code: 0, stdout: /^3 from \d{4}-\d\d-\d\dT[\d:.]+Z on; 1 until then\n$/ });
    t.equal(await client.hget(keys.meta, 'shards'), '3');
    const nothing = { REDIS_URL: redis.url, KEY_PREFIX: 'nothing' };
    const refused = [run('2'), run('257'), run('4', '5'), wishmeter({ args: ['shards', '4'], env: nothing })];
    t.match(await Promise.all(refused), [
      { code: 1, stderr: /There are 3 shards, and their number can only be raised/ },
      { code: 2, stderr: /from 1 to 256/ },
      { code: 2 },
      { code: 1, stderr: /start serve first/ },
    ]);
  });
});

t.test('a visitor stays where it is, or moves to a new shard, and all shards have as many', async (t) => {
  t.ok(VISITORS.every((visitor) => shardOf(visitor, 1) === 0));
  for (const [before, after] of [
    [1, 2],
    [2, 3],
    [3, 8],
  ] as const) {
    const moved = VISITORS.filter((visitor) => shardOf(visitor, before) !== shardOf(visitor, after));
    t.same(
      moved.filter((visitor) => shardOf(visitor, after) < before),
      [],
      `${before} to ${after}: none moves between old ones`,
    );
    const counts = Array.from({ length: after }, () => 0);
    for (const visitor of VISITORS)
      counts[shardOf(visitor, after)] = (counts[shardOf(visitor, after)] ?? 0) + 1;
    const fair = VISITORS.length / after;
    t.ok(
      counts.every((count) => Math.abs(count - fair) < fair / 4),
      `${after}: ${counts}`,
    );
  }
  // With another function, events of a visitor that wait would be in two streams after an upgrade.
  t.same([shardOf('7.test', 4), shardOf('0.a', 4), shardOf('12.zz', 256)], [3, 0, 133], 'for good');
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
  await store.ping();
  store.close();
});

t.test('a Redis Cluster', async (t) => {
  const cluster = await startTestCluster(t);
  t.test('one node of it alone is refused', async (t) => {
    await t.rejects(Store.open({ ...OPTIONS, urls: cluster.urls.slice(0, 1) }), {
      name: 'StartupError',
      message: /names one node of a Redis Cluster/,
    });
    const store = await Store.open({ ...OPTIONS, urls: cluster.urls.slice(0, 2) });
    t.equal(store.isCluster, true);
    await store.ping();
    store.close();
  });

  const nodes = connectToEach(t, cluster.urls);

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
      name: 'StartupError',
      message: 'The Redis Cluster is not ready: its cluster_state is not ok.',
    });
    await mendIt();
  });
});

// Which Redis may be used: what a deployment draws once, what a start refuses, lost data, and masters that are replaced.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster, Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { openDeployment, SCHEMA } from '../../src/redis/deployment.js';
import { createKeys } from '../../src/redis/keys.js';
import { DeploymentLostError, slotOf } from '../../src/redis/node-markers.js';
import { Replicas } from '../../src/redis/replicas.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { writeKey } from '../../src/redis/write.js';
import { connectTo, connectToEach, startTestCluster, startTestRedis } from '../harness/redis.js';
import { slotsOf } from '../harness/slots.js';
import { openStore, ping } from '../harness/store.js';
import { until } from '../harness/until.js';

const PREFIX = 'h';
const META = `${PREFIX}:meta`;
const SLOTS = 16_384;
async function open(t: Test, redis: { readonly urls: readonly string[] }, more: Partial<StoreOptions> = {}) {
  const errors: Error[] = [];
  const onError = (error: Error) => errors.push(error);
  const fast = { timeoutMs: 2_000, verifyMs: 100 };
  const store = await openStore(t, redis, { ...fast, keyPrefix: PREFIX, buckets: 16, onError, ...more });
  const write = (tag: string) => writeKey(store, `${PREFIX}:{${tag}}:x`, ['SET', 'v']);
  const isServed = (tag: string): Promise<boolean> =>
    write(tag).then(
      () => true,
      (error: { code?: string }) => {
        if (error.code !== 'unavailable') throw error;
        return false;
      },
    );
  return { store, errors, write, isServed };
}
const losses = (errors: readonly Error[]) => errors.filter((error) => error instanceof DeploymentLostError);
t.test('a replica counts if it is online and acknowledges the writes of its master in time', async (t) => {
  let now = 0;
  const replicas = new Replicas(1, () => now);
  const read = (...lines: string[]) => {
    replicas.read(['master_repl_offset:90', ...lines].join('\r\n'));
    return replicas.tooFew?.message ?? 'enough';
  };
  const replica = (of: object = {}) => {
    const { state, offset, lag } = { state: 'online', offset: 90, lag: 0, ...of };
    return `slave0:ip=10.0.0.1,port=6379,state=${state},offset=${offset},lag=${lag}`;
  };
  const few = 'NOREPLICAS 0 of 1 replicas keep up.';
  const unknown = 'NOREPLICAS Whether replicas keep up is unknown.';
  t.match(replicas.tooFew, { message: unknown }, 'before the first answer');
  t.equal(read(), few);
  t.equal(read(replica()), 'enough');
  t.equal(read(replica({ state: 'wait_bgsave', offset: 0 })), few);
  t.equal(read(replica({ lag: 2 })), 'enough');
  t.equal(read(replica({ lag: 3 })), few);
  t.equal(read(replica({ offset: 80 })), 'enough', 'acknowledged a second ago');
  replicas.late();
  t.match(replicas.tooFew, { message: unknown }, 'after a WAIT in vain');
  t.equal(read(replica({ offset: 80 })), few);
  t.equal(read(replica({ offset: 89 })), few);
  t.equal(read(replica({ offset: 90 })), 'enough');
  now += 3_001;
  t.match(replicas.tooFew, { message: unknown }, 'an old answer');
  replicas.forget();
  t.equal(read(replica({ offset: 80 })), 'enough', 'on a new connection');
  t.equal(new Replicas(0).tooFew, undefined, 'without REDIS_REPLICAS');
});
t.test('a node of a cluster', async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  const slots = await slotsOf(nodes, cluster.urls);
  const { store, errors, isServed } = await open(t, cluster);
  const holder = (slot: number) => Math.floor((slot * nodes.length) / SLOTS);
  const metaNode = holder(slotOf(META));
  const emptied = (metaNode + 1) % nodes.length;
  const tagAt = (node: number) => {
    for (let n = 0; ; n++) if (holder(slotOf(`{t${n}}`)) === node) return `t${n}`;
  };
  const markersOf = async (node: number) => (await nodes[node]?.keys(`${PREFIX}:*:marker`)) as string[];

  t.test('each node of a cluster has a marker, except the node of meta', async (t) => {
    const counts = await Promise.all(nodes.map(async (_, i) => (await markersOf(i)).length));
    t.equal(counts.splice(metaNode, 1)[0], 0);
    t.same(counts, [1, 1]);
    const second = await open(t, cluster);
    await until('served', () => second.isServed(tagAt(emptied)));
    second.store.close();
    t.equal((await markersOf(emptied)).length, 1, 'another process uses the same');
  });

  t.test('node markers are named in meta again after a failover has lost their names', async (t) => {
    const named = async () =>
      (await store.client.hkeys(META)).filter((name) => name.startsWith('marker:')).sort();
    const names = await named();
    t.equal(names.length, nodes.length - 1);
    await store.client.hdel(META, ...names);
    await until('they are named', async () => (await named()).length === names.length);
    t.same(await named(), names);
  });

  t.test('the slots of an emptied node are refused, and other nodes are served', async (t) => {
    const [marker = ''] = await markersOf(emptied);
    const kept = (await nodes[emptied]?.hgetall(marker)) as Record<string, string>;
    await nodes[emptied]?.flushall();
    await until('refused', async () => !(await isServed(tagAt(emptied))));
    await until('another node is served', () => isServed(tagAt(metaNode)));
    t.match(losses(errors), [{ message: /^Node 127\.0\.0\.1:\d+ of the Redis Cluster no longer holds/ }]);
    await t.rejects(ping(store), { message: /no longer holds/ });

    await nodes[emptied]?.flushall();
    const late = await open(t, cluster);
    t.notOk(await late.isServed(tagAt(emptied)), 'a process that starts now refuses them, too');
    t.equal(losses(late.errors).length, 1);
    t.same(await nodes[emptied]?.keys('*'), [], 'and makes no marker anew');
    late.store.close();

    await nodes[emptied]?.hset(marker, kept);
    await until('served', () => isServed(tagAt(emptied)));
    await ping(store);
  });

  t.test('an emptied node whose loss is accepted is served again, with another marker', async (t) => {
    const [marker = ''] = await markersOf(emptied);
    await nodes[emptied]?.flushall();
    await until('refused', async () => !(await isServed(tagAt(emptied))));
    const tag = /{(.*)}/.exec(marker)?.[1] as string;
    t.equal(await nodes[metaNode]?.hdel(META, `marker:${tag}`), 1);
    await until('served', () => isServed(tagAt(emptied)));
    t.equal((await markersOf(emptied)).length, 1, 'it has another marker');
  });

  t.test("a node that gives its marker's slot away is not lost, and gets another marker", async (t) => {
    const [marker = ''] = await markersOf(emptied);
    const slot = slotOf(marker);
    await slots.move(slot, emptied, metaNode);
    const before = losses(errors).length;
    await until('another marker', async () => (await markersOf(emptied)).length === 1);
    t.not((await markersOf(emptied))[0], marker);
    await until('served', () => isServed(tagAt(emptied)));
    t.equal(losses(errors).length, before, 'no loss was reported');
    await ping(store);
  });

  t.test('everything is refused if the node of meta is emptied', async (t) => {
    const meta = (await nodes[metaNode]?.hgetall(META)) as Record<string, string>;
    await nodes[metaNode]?.flushall();
    await until('refused', async () => !(await isServed(tagAt(emptied))));
    t.notOk(await isServed(tagAt(metaNode)));
    await nodes[metaNode]?.hset(META, meta);
    await until('served', () => isServed(tagAt(emptied)));
  });
});

const SLOT = 5;
const OPTIONS = { name: 'test', timeoutMs: 500, keyPrefix: 'd', buckets: 16, onError: () => {} };
t.test('a deployment', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const keys = createKeys('d');

  t.test('a deployment is drawn at the first start, and is the same for every process', async (t) => {
    const opened = await Promise.all(Array.from({ length: 10 }, () => openDeployment(client, keys, {})));
    t.match(opened[0], { salt: /^[0-9a-f]{64}$/ });
    t.equal(new Set(opened.map(({ salt }) => salt)).size, 1);
    t.same(Object.keys(await client.hgetall(keys.meta)).sort(), ['salt', 'schema']);
  });

  t.test('a start is refused if the data have a newer schema', async (t) => {
    await client.hset(keys.meta, 'schema', SCHEMA + 1);
    await t.rejects(openDeployment(client, keys, OPTIONS), {
      name: 'StartupError',
      message: /start a newer version/,
    });
    await client.hset(keys.meta, 'schema', SCHEMA);
  });
});
t.test('a start waits for a Redis that is frozen for a moment', async (t) => {
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
  t.test('one URL of a Redis Cluster is enough', async (t) => {
    const store = await Store.open({ ...OPTIONS, urls: cluster.urls.slice(0, 1) });
    t.equal(store.isOneServer, false);
    await ping(store);
    store.close();
  });

  const nodes = connectToEach(t, cluster.urls);

  t.test('the percent-encoded user of the URLs logs in at every node of a cluster', async (t) => {
    const rights = ['on', '>secret/@', 'allkeys', 'allchannels', 'allcommands'];
    for (const node of nodes) await node.call('ACL', 'SETUSER', 'sh@p', ...rights);
    const urls = cluster.urls.map((url) => url.replace('//', '//sh%40p:secret%2F%40@'));
    const store = await Store.open({ ...OPTIONS, urls });
    t.teardown(() => store.close());
    const masters = (store.client as Cluster).nodes('master');
    const users = await Promise.all(masters.map((node) => node.call('ACL', 'WHOAMI')));
    t.same(users, ['sh@p', 'sh@p', 'sh@p']);
  });

  const owner = nodes[0] as Redis;
  const states = () => Promise.all(nodes.map(async (node) => String(await node.call('CLUSTER', 'INFO'))));
  const breakIt = async () => {
    await until('it is not ok', async () => {
      // Repeated, because gossip between the nodes may restore the slot's owner.
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

  t.test('a start waits for a Redis Cluster that becomes ready in a moment', async (t) => {
    await breakIt();
    const opening = open('moment');
    await sleep(500);
    await mendIt();
    const store = await opening;
    t.teardown(() => store.close());
    t.equal(await store.call((client) => client.hexists(createKeys('moment').meta, 'salt')), 1);
  });

  t.test('a start fails with one sentence if a Redis Cluster does not become ready', async (t) => {
    await breakIt();
    await t.rejects(open('never'), {
      message: 'The Redis Cluster is not ready: its cluster_state is not ok.',
    });
    await mendIt();
  });
});

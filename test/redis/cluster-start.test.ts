// A start beside a cluster that is not ready: in the making, or without a part of its slots. It waits for a moment and goes
// on by itself, or fails with a sentence; it never hangs.

import type { Redis } from 'ioredis';
import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { Store } from '../../src/redis/store.js';
import { connectToEach } from '../harness/dump.js';
import { startTestCluster } from '../harness/redis.js';
import { until } from '../harness/until.js';

const SLOT = 5;

const cluster = await startTestCluster();
t.teardown(() => cluster.stop());
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
  Store.open({
    urls: cluster.urls,
    name: 'cluster start',
    timeoutMs: 2_000,
    keyPrefix,
    buckets: 16,
    eventShards: 1,
    onError: () => {},
  });

t.test('one that becomes ready in a moment is waited for', async (t) => {
  await breakIt();
  const opening = open('moment');
  await new Promise((resolve) => setTimeout(resolve, 500));
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

// A Redis Cluster of three masters with a replica each. Its nodes can be killed and started again on their
// data.

import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type Member, newMembers, nodesConf, startMember } from '../../bench/servers/cluster.js';
import type { Child } from '../../src/extras/embedded/child.js';
import { until } from '../harness/until.js';
import { kill, type Part, type RedisPart } from './service.js';

const MASTERS = 3;
const TAKE_OVER_MS = 60_000;

export interface ClusterNode extends Part {
  readonly port: number;
  /** `master`, or the port of its master if it is a replica with a link to it; undefined if it is neither. */
  role(): Promise<'master' | number | undefined>;
  command(...words: string[]): Promise<unknown>;
}

export interface Pair {
  readonly master: ClusterNode;
  readonly replica: ClusterNode;
}

export interface RedisCluster extends RedisPart {
  readonly nodes: readonly ClusterNode[];
  /** Resolves to the pairs when each of three masters has a replica with a link to it. */
  pairs(): Promise<readonly Pair[]>;
  /** Resolves when each of three masters has a replica with a link to it; the replica may still lack data. */
  whole(): Promise<void>;
}

/** The nodes are not started yet. After they stop, their folder stays. */
export async function redisCluster(dir: string): Promise<RedisCluster> {
  const members = await newMembers(2 * MASTERS);
  const nodes = members.map((self, i) =>
    nodeOf(join(dir, `node${i}`), self, nodesConf(self, members, { masters: MASTERS })),
  );

  const pairs = async () => {
    const roles = await Promise.all(nodes.map((node) => node.role()));
    return nodes.flatMap((replica, i) => {
      const master = nodes.find(({ port }, j) => port === roles[i] && roles[j] === 'master');
      return master === undefined ? [] : [{ master, replica }];
    });
  };
  const isServed = async (node: ClusterNode) =>
    String(await node.command('CLUSTER', 'INFO').catch(() => '')).includes('cluster_state:ok');
  const whole = async () => {
    await until('three masters have replicas', async () => (await pairs()).length === MASTERS, TAKE_OVER_MS);
    await until('all slots are served', async () => (await Promise.all(nodes.map(isServed))).every(Boolean));
  };
  return {
    name: 'redis',
    nodes,
    get pid() {
      return nodes[0]?.pid;
    },
    url: () => nodes.map(({ port }) => `redis://127.0.0.1:${port}`).join(),
    whole,
    async start() {
      await Promise.all(nodes.map((node) => node.start()));
      await whole();
    },
    async stop() {
      // A replica ignores SIGTERM while it writes its first AOF after a full sync.
      await Promise.all(nodes.map((node) => node.pid && kill(node)));
    },
    async pairs() {
      await whole();
      return pairs();
    },
  };
}

const SETTINGS = {
  'cluster-node-timeout': '2000',
  'cluster-allow-replica-migration': 'no', // each master keeps its own replica
  'cluster-replica-validity-factor': '0', // a replica takes over however long it was frozen
  appendfsync: 'always',
  'repl-diskless-sync-delay': '0',
};

function nodeOf(dir: string, self: Member, conf: string): ClusterNode {
  const { port } = self;
  let child: Child<void> | undefined;
  const command = async (...words: [string, ...string[]] | string[]) => {
    const client = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => null });
    client.on('error', () => {});
    try {
      await client.connect();
      return await client.call(words[0] as string, ...words.slice(1));
    } finally {
      client.disconnect();
    }
  };
  return {
    name: `redis ${port}`,
    port,
    get pid() {
      return child?.pid;
    },
    command,
    async role() {
      const role = (await command('ROLE').catch(() => [])) as unknown[];
      if (role[0] === 'master') return 'master';
      return role[0] === 'slave' && role[3] === 'connected' ? Number(role[2]) : undefined;
    },
    async start() {
      child = await startMember(dir, self, { conf, settings: SETTINGS, restart: false });
    },
    stop: async () => await child?.stop(),
  };
}

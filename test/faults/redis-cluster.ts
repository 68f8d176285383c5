// A Redis Cluster of three masters, each with a replica: nodes that are killed and started again on their
// data, and masters whose replica takes over.

import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type Member, memberArgs } from '../../bench/servers/cluster.js';
import { freePort } from '../../bench/servers/ports.js';
import { type Child, startChild } from '../../src/extras/embedded/child.js';
import { findRedis, untilLoaded } from '../../src/extras/embedded/redis.js';
import { until } from '../harness/until.js';
import { kill, type Part, type RedisPart } from './service.js';

const MASTERS = 3;
const SLOTS = 16_384;
const NODE_TIMEOUT_MS = 2_000;
const TAKE_OVER_MS = 60_000;

export interface ClusterNode extends Part {
  readonly port: number;
  /** `master`, or the port of its master where it is a replica with a link to it; undefined where neither. */
  role(): Promise<'master' | number | undefined>;
  command(...words: string[]): Promise<unknown>;
}

export interface Pair {
  readonly master: ClusterNode;
  readonly replica: ClusterNode;
}

export interface RedisCluster extends RedisPart {
  readonly nodes: readonly ClusterNode[];
  /** Resolves when each of three masters has a replica with a link to it; these pairs. */
  pairs(): Promise<readonly Pair[]>;
  /** Resolves when each of three masters has a replica with a link to it, which may not have all yet. */
  whole(): Promise<void>;
}

/** Not started yet; stopped, its folder is left alone. */
export async function redisCluster(dir: string): Promise<RedisCluster> {
  const members: Member[] = [];
  for (let i = 0; i < 2 * MASTERS; i++)
    members.push({ id: randomBytes(20).toString('hex'), port: await freePort(), bus: await freePort() });
  const nodes = await Promise.all(members.map((_, i) => nodeOf(join(dir, `node${i}`), i, members)));

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
      // A replica that writes its first AOF after a full sync ignores SIGTERM.
      await Promise.all(nodes.map((node) => node.pid && kill(node)));
    },
    async pairs() {
      await whole();
      return pairs();
    },
  };
}

/** What the `number`th node begins with, as if all had met; the second half are the replicas of the first. */
function nodesConf(number: number, members: readonly Member[]): string {
  const first = (n: number) => Math.ceil((n * SLOTS) / MASTERS);
  const lines = members.map(({ id, port, bus }, n) => {
    const node = `${id} 127.0.0.1:${port}@${bus} ${n === number ? 'myself,' : ''}`;
    const master = members[n - MASTERS];
    if (master !== undefined) return `${node}slave ${master.id} 0 0 ${n - MASTERS + 1} connected\n`;
    return `${node}master - 0 0 ${n + 1} connected ${first(n)}-${first(n + 1) - 1}\n`;
  });
  return `${lines.join('')}vars currentEpoch ${MASTERS} lastVoteEpoch 0\n`;
}

async function nodeOf(dir: string, number: number, members: readonly Member[]): Promise<ClusterNode> {
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'nodes.conf'), nodesConf(number, members));
  const self = members[number] as Member;
  const { port } = self;
  const args = memberArgs(self, {
    'cluster-node-timeout': String(NODE_TIMEOUT_MS),
    'cluster-allow-replica-migration': 'no', // each master keeps its own
    'cluster-replica-validity-factor': '0', // it takes over, however long it was frozen
    appendfsync: 'always',
    'repl-diskless-sync-delay': '0',
  });
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
      child = await startChild({
        name: `Redis on ${port}`,
        command: () => ({ file: findRedis(), args, cwd: dir }),
        ready: (_child, ended) => untilLoaded({ port, host: '127.0.0.1' }, ended),
        output: 'tail',
        restart: false,
      });
    },
    stop: async () => await child?.stop(),
  };
}

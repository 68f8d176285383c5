// A Redis Cluster of three masters, each with a replica: nodes that are killed and started again on their
// data, and masters whose replica takes over.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../../bench/servers/ports.js';
import { type Child, startChild } from '../../src/embedded/child.js';
import { findRedis, untilLoaded } from '../../src/embedded/redis.js';
import { until } from '../harness/until.js';
import type { Part, RedisPart } from './service.js';

const MASTERS = 3;
const SLOTS = 16_384;
const NODE_TIMEOUT_MS = 2_000;
const TAKE_OVER_MS = 60_000;

export interface ClusterNode extends Part {
  readonly port: number;
  /** Its id in the cluster. */
  id(): Promise<string>;
  /** `master`, or the port of its master where it is a replica with a link to it; undefined where neither. */
  role(): Promise<'master' | number | undefined>;
  command(...words: string[]): Promise<unknown>;
}

export interface RedisCluster extends RedisPart {
  readonly nodes: readonly ClusterNode[];
  /** A master and its replica, which has a link to it. @param pick draws one of them */
  pair(pick: <T>(from: readonly T[]) => T): Promise<{ master: ClusterNode; replica: ClusterNode }>;
  /** Resolves when each of three masters has a replica with a link to it, which may not have all yet. */
  whole(): Promise<void>;
}

/** Not started yet; stopped, its folder is left alone. */
export async function redisCluster(dir: string): Promise<RedisCluster> {
  const nodes = await Promise.all(
    Array.from({ length: 2 * MASTERS }, (_, i) => nodeOf(join(dir, `node${i}`))),
  );
  let formed = false;

  const pairs = async () => {
    const roles = await Promise.all(nodes.map((node) => node.role()));
    return nodes.flatMap((replica, i) => {
      const master = nodes.find(({ port }, j) => port === roles[i] && roles[j] === 'master');
      return master === undefined ? [] : [{ master, replica }];
    });
  };
  const whole = async () => {
    await until('three masters have replicas', async () => (await pairs()).length === MASTERS, TAKE_OVER_MS);
  };
  const form = async () => {
    for (const [i, node] of nodes.slice(0, MASTERS).entries()) {
      const [from, to] = [i, i + 1].map((n) => Math.ceil((n * SLOTS) / MASTERS)) as [number, number];
      await node.command('CLUSTER', 'ADDSLOTSRANGE', `${from}`, `${to - 1}`);
    }
    // Else they draw lots when they meet, and a replica that has not heard of the outcome is never elected:
    // https://github.com/valkey-io/valkey/issues/2169
    for (const [i, node] of nodes.entries()) await node.command('CLUSTER', 'SET-CONFIG-EPOCH', `${i + 1}`);
    const [first, ...others] = nodes as [NodeWithBus, ...NodeWithBus[]];
    for (const node of others)
      await node.command('CLUSTER', 'MEET', '127.0.0.1', `${first.port}`, `${first.bus}`);
    await until('all know each other', async () => {
      const infos = await Promise.all(nodes.map((node) => node.command('CLUSTER', 'INFO')));
      return infos.every((info) => /cluster_state:ok.*cluster_known_nodes:6\b/s.test(String(info)));
    });
    for (const [i, replica] of nodes.slice(MASTERS).entries())
      await replica.command('CLUSTER', 'REPLICATE', await (nodes[i] as ClusterNode).id());
    await whole();
    formed = true;
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
      if (formed) await whole();
      else await form();
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()));
    },
    async pair(pick) {
      await whole();
      return pick(await pairs());
    },
  };
}

type NodeWithBus = ClusterNode & { readonly bus: number };

async function nodeOf(dir: string): Promise<NodeWithBus> {
  await mkdir(dir, { recursive: true });
  const [port, bus] = await Promise.all([freePort(), freePort()]);
  const args = Object.entries({
    dir: '.',
    port: String(port),
    bind: '127.0.0.1',
    'cluster-enabled': 'yes',
    'cluster-port': String(bus),
    'cluster-node-timeout': String(NODE_TIMEOUT_MS),
    'cluster-allow-replica-migration': 'no', // each master keeps its own
    'cluster-replica-validity-factor': '0', // it takes over, however long it was frozen
    appendonly: 'yes',
    appendfsync: 'always',
    save: '',
    'maxmemory-policy': 'noeviction',
    'hash-max-listpack-entries': '512',
    'repl-diskless-sync-delay': '0',
    loglevel: 'warning',
  }).flatMap(([name, value]) => [`--${name}`, value]);
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
    bus,
    get pid() {
      return child?.pid;
    },
    command,
    id: async () => String(await command('CLUSTER', 'MYID')),
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

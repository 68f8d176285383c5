// One shard with two replicas: two embedded ClickHouse and ZooKeeper. This file imitates `ON CLUSTER`. A
// replica fetches no parts of the other one, so nothing is merged or erased.

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { freePort } from '../../bench/servers/ports.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { clusterSettings } from '../../src/clickhouse/cluster.js';
import { nodeCommand, readyOverIpc, startChild } from '../../src/extras/embedded/child.js';
import { ENGINE_THREADS } from '../../src/extras/embedded/clickhouse/engine.js';
import { until } from '../harness/until.js';
import { startZooKeeper } from './zookeeper.js';

export const CLUSTER = 'many';
const REPLICA = new URL('./replica.js', import.meta.url);
/** Replicas pass on a change of a replicated table to each other. */
const ONCE_A_SHARD = /^ALTER TABLE \S+_local\b/;
const TABLE = /^CREATE TABLE IF NOT EXISTS (\S+).*ENGINE = Replicated/s;

export async function startCluster() {
  const dir = await mkdtemp(join(tmpdir(), 'wm-replicas-'));
  const zookeeper = await startZooKeeper(dir);
  const ports = [await freePort(), await freePort()];
  const replicas = await Promise.all([1, 2].map((number) => startReplica(join(dir, `r${number}`), number)));
  const clients: ClickHouseClient[] = [];

  async function startReplica(folder: string, number: number) {
    await mkdir(folder);
    return await startChild<{ ready: true; url: string }>({
      name: `replica ${number}`,
      command: () => ({
        ...nodeCommand(REPLICA, [folder, String(zookeeper.port), CLUSTER, String(number), ports.join(',')], {
          ...process.env,
          UV_THREADPOOL_SIZE: String(ENGINE_THREADS),
        }),
        cwd: folder,
      }),
      ready: readyOverIpc,
      ipc: true,
      output: 'tail',
      restart: false,
    });
  }

  return {
    zookeeper,
    connect(database?: string): [ClickHouseClient, ClickHouseClient] {
      const [first, second] = replicas.map(({ ready }) =>
        createClickHouse(ready.url, database, clusterSettings(CLUSTER)),
      ) as [ClickHouseClient, ClickHouseClient];
      clients.push(first, second);
      return [first, second];
    },
    async stop() {
      await Promise.all(clients.map((client) => client.close()));
      await Promise.all(replicas.map((replica) => replica.stop()));
      await zookeeper.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/**
 * A server repeats a statement `ON CLUSTER` after this error: the replica does not know yet of a change by
 * another one.
 */
const CANNOT_ASSIGN_ALTER = '517';
let ahead: Promise<unknown> = Promise.resolve();

/** The first client; but commands with `ON CLUSTER` run on each client, one after another, as on servers. */
export function onEach(clients: readonly [ClickHouseClient, ...ClickHouseClient[]]): ClickHouseClient {
  const [first] = clients;
  return new Proxy(first, {
    get(client, name) {
      if (name !== 'command') {
        const value = Reflect.get(client, name);
        return typeof value === 'function' ? value.bind(client) : value;
      }
      return async ({ query }: { query: string }) => {
        const plain = query.replace(` ON CLUSTER ${CLUSTER}`, '');
        if (plain === query) return await client.command({ query });
        const run = ahead.then(() => runOn(ONCE_A_SHARD.test(plain) ? [client] : clients, plain));
        ahead = run.catch(() => {});
        return await run;
      };
    },
  });
}

async function runOn(clients: readonly ClickHouseClient[], query: string): Promise<void> {
  const [, table] = TABLE.exec(query) ?? [];
  for (const client of clients) {
    await until(query, async () => {
      try {
        return await client.command({ query });
      } catch (error) {
        if ((error as { code?: string }).code !== CANNOT_ASSIGN_ALTER) throw error;
        return undefined;
      }
    });
    if (table === undefined) continue;
    await client.command({ query: `SYSTEM STOP FETCHES ${table}` });
    await client.command({ query: `SYSTEM STOP MERGES ${table}` });
  }
}

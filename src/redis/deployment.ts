// A deployment's salt and schema version.

import { randomBytes } from 'node:crypto';
import type { Cluster } from 'ioredis';
import { StartupError } from '../errors.js';
import { connectRedis, type RedisClient } from './client.js';
import type { Keys } from './keys.js';

/** A program refuses data of a newer schema. */
export const SCHEMA = 1;

/** Never changes, because every key depends on it. */
const BUCKETS = 16_384;

export interface Deployment {
  readonly buckets: number;
  /** Hexadecimal, 32 bytes; secret. */
  readonly salt: string;
}

const TIMEOUT_MS = 2_000;
const OLDEST_OF_CLUSTER = 7;

/**
 * Writes only what is missing or differs: at `maxmemory`, a process that starts must be able to read and to erase.
 * @param options `guestsS`: undefined keeps the stored one @throws StartupError if the data is newer
 */
export async function openDeployment(
  client: RedisClient,
  keys: Keys,
  { buckets = BUCKETS, guestsS }: { readonly buckets?: number; readonly guestsS?: number },
): Promise<Deployment> {
  await refuseOldCluster(client);
  const read = () => client.hmget(keys.meta, 'schema', 'salt', 'guestsS');
  let [schema, salt, stored] = await read();
  if (!schema || !salt) {
    await client.hsetnx(keys.meta, 'schema', SCHEMA);
    await client.hsetnx(keys.meta, 'salt', randomBytes(32).toString('hex'));
    [schema, salt, stored] = await read(); // another process may have been first
  }
  if (guestsS !== undefined && stored !== String(guestsS)) await client.hset(keys.meta, 'guestsS', guestsS);
  if (Number(schema) > SCHEMA) {
    throw new StartupError(
      `Redis holds data of schema ${schema}, and this program knows ${SCHEMA}: start a newer version.`,
    );
  }
  return { buckets, salt: salt as string };
}

export async function holdsDeployment(urls: readonly string[], keys: Keys): Promise<boolean> {
  const client = await connectRedis({ urls, name: 'wishmeter', timeoutMs: TIMEOUT_MS }, () => {});
  try {
    return (await client.hexists(keys.meta, 'salt')) === 1;
  } finally {
    client.disconnect();
  }
}

/** Scripts access all slots of a node, which needs Redis 7.0. */
async function refuseOldCluster(client: RedisClient): Promise<void> {
  if (!client.isCluster) return;
  const infos = await Promise.all((client as Cluster).nodes('master').map((node) => node.info('server')));
  const old = infos.map(versionOf).find((version) => Number.parseInt(version, 10) < OLDEST_OF_CLUSTER);
  if (old === undefined) return;
  throw new StartupError(
    `A Redis Cluster needs Redis ${OLDEST_OF_CLUSTER}.0 or Valkey, and a node of this one is ${old}.`,
  );
}

export function versionOf(info: string): string {
  return /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown';
}

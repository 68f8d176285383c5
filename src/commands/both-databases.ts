// Connects `backup` and `restore` to both databases and rewords their errors.

import { createClickHouse } from '../clickhouse/client.js';
import { clusterSettings } from '../clickhouse/cluster.js';
import { StartupError } from '../errors.js';
import type { Databases } from '../extras/backup/backup.js';
import { connectRedis } from '../redis/client.js';
import { toStartupError } from '../redis/failures.js';
import { createKeys } from '../redis/keys.js';
import { UsageError } from './command-line.js';
import type { Program } from './program.js';

/** The time-out of Redis, long enough for a value of many megabytes. */
const REDIS_TIMEOUT_MS = 60_000;

export interface Where {
  readonly config: Program<'backup' | 'restore'>['config'];
  readonly redisUrls: readonly string[];
  readonly clickhouseUrl: string;
}

export function oneFolder(command: string, [folder, ...more]: readonly string[]): string {
  if (!folder || more.length > 0) throw new UsageError(`${command} takes one folder.`);
  return folder;
}

export async function withDatabases(
  failure: string,
  { config, redisUrls, clickhouseUrl }: Where,
  act: (databases: Databases) => Promise<void>,
): Promise<void> {
  const prefix = config.KEY_PREFIX;
  const connection = { urls: redisUrls, name: 'wishmeter backup', timeoutMs: REDIS_TIMEOUT_MS };
  const redis = await connectRedis(connection, () => {}).catch((error) => {
    throw toStartupError(error);
  });
  const database = config.CLICKHOUSE_DATABASE;
  const settings = clusterSettings(config.CLICKHOUSE_CLUSTER);
  const clickhouse = createClickHouse(clickhouseUrl, database, settings);
  const server = createClickHouse(clickhouseUrl, undefined, settings);
  try {
    await act({ redis, keys: createKeys(prefix), prefix, clickhouse, server, database });
  } catch (error) {
    if (error instanceof StartupError) throw new StartupError(`${failure}. ${error.message}`);
    const why = (error as Error).message.trim().replace(/\s+/g, ' ').replace(/\.$/, '');
    throw new StartupError(`${failure}: ${why}.`);
  } finally {
    redis.disconnect();
    await Promise.all([clickhouse.close(), server.close()]);
  }
}

// Restores a backup into empty databases: ClickHouse, then Redis. After an interruption, the databases must be
// emptied again.

import { join } from 'node:path';
import { fingerprintOf, knownDeployment, recordDeployment } from '../../clickhouse/deployment.js';
import { keepSettings } from '../../clickhouse/kept-settings.js';
import { migrate } from '../../clickhouse/migrate.js';
import { StartupError } from '../../errors.js';
import { SCHEMA } from '../../redis/deployment.js';
import { type Databases, fileOf, newestMigration, redisPath } from './backup.js';
import type { OnProgress } from './dump-redis.js';
import { checkFiles, type Manifest, readManifest } from './manifest.js';
import { hasKeys, restoreRedis } from './restore-redis.js';
import { restoreTable } from './restore-tables.js';
import { answerOf, anyTable, countRows, FED_AS_WELL, TABLES } from './tables.js';

export interface Restored {
  readonly manifest: Manifest;
  readonly keys: number;
  readonly ended: number;
}

export interface RestoreSpec {
  readonly folder: string;
  /** Restores only this database; the other one must still hold the deployment. */
  readonly only: 'redis' | 'clickhouse' | undefined;
  readonly cluster: string;
  readonly onProgress: OnProgress;
}

export async function restore(databases: Databases, spec: RestoreSpec): Promise<Restored> {
  const { redis, prefix } = databases;
  const { folder, only, onProgress } = spec;
  const manifest = await readManifest(folder);
  refuseForeign(manifest, prefix);
  if (only === 'clickhouse') await refuseOtherRedis(databases, manifest);
  else await refuseUsedRedis(databases);
  if (only === 'redis') await refuseOtherClickHouse(databases, manifest);
  else await refuseUsedClickHouse(databases);
  await checkFiles(folder, manifest, (name) => onProgress(`Checking ${name}`, 0));
  if (only !== 'redis') await restoreTables(databases, manifest, spec);
  if (only === 'clickhouse') return { manifest, keys: 0, ended: 0 };
  const { keys } = databases;
  const found = await restoreRedis({ client: redis, keys, prefix, path: redisPath(folder), onProgress });
  return { manifest, ...found };
}

async function restoreTables(
  { prefix, clickhouse, server, database }: Databases,
  manifest: Manifest,
  { folder, cluster, onProgress }: RestoreSpec,
): Promise<void> {
  const { timeZone, visitRetentionDays, rows } = manifest.clickhouse;
  await migrate(server, database, { cluster, timeZone });
  await keepSettings(server, database, {
    CLICKHOUSE_CLUSTER: cluster,
    SHOP_TIMEZONE: timeZone,
    VISIT_RETENTION_DAYS: visitRetentionDays,
  });
  await recordDeployment(clickhouse, prefix, manifest.fingerprint);
  for (const table of TABLES)
    await restoreTable(clickhouse, { table, path: join(folder, fileOf(table)), cluster }, onProgress);
  for (const [table, expected] of Object.entries(rows)) {
    const found = await countRows(clickhouse, table);
    if (found < expected || (found > expected && !FED_AS_WELL.has(table)))
      throw new StartupError(
        `${table} has ${found} rows, and the backup has ${expected}: empty ClickHouse and restore again.`,
      );
  }
}

function refuseForeign({ keyPrefix, clickhouse, redis, wishmeter }: Manifest, prefix: string): void {
  if (keyPrefix !== prefix)
    throw new StartupError(
      `The backup is of KEY_PREFIX ${keyPrefix}: keys are not renamed. Set the same one.`,
    );
  if (clickhouse.migration > newestMigration() || redis.schema > SCHEMA)
    throw new StartupError(
      `wishmeter ${wishmeter} made this backup: restore it with that version or a newer one.`,
    );
}

async function refuseUsedRedis({ redis, prefix }: Databases): Promise<void> {
  if (await hasKeys(redis, prefix))
    throw new StartupError(
      `Redis is not empty: it has keys that begin with ${prefix}:. Stop what writes there, and empty it. Nothing was changed.`,
    );
}

async function refuseUsedClickHouse({ server, database }: Databases): Promise<void> {
  const table = await anyTable(server, database);
  if (table !== undefined)
    throw new StartupError(
      `ClickHouse is not empty: ${table} has rows. DROP DATABASE ${database} first. Nothing was changed.`,
    );
}

async function refuseOtherRedis({ redis, keys }: Databases, { fingerprint }: Manifest): Promise<void> {
  const salt = await redis.hget(keys.meta, 'salt');
  if (salt === null || fingerprintOf(salt) !== fingerprint)
    throw new StartupError('Redis does not hold the deployment of this backup. Nothing was changed.');
}

async function refuseOtherClickHouse(
  { clickhouse, server, prefix, database }: Databases,
  { fingerprint }: Manifest,
): Promise<void> {
  const isThere = (await answerOf(server, `EXISTS TABLE ${database}.deployment`)) === '1';
  if (!isThere || (await knownDeployment(clickhouse, prefix)) !== fingerprint)
    throw new StartupError('ClickHouse does not hold the deployment of this backup. Nothing was changed.');
}

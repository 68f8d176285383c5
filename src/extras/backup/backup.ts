// Backs up a running deployment: Redis first, then ClickHouse. An event stays in Redis until ClickHouse confirms it, so
// the backup has each event from one or both; its id makes it one row. In the other order, an event flushed in between
// would be missing.

import { chmod, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { fingerprintOf, knownDeployment } from '../../clickhouse/deployment.js';
import { resolveSettings } from '../../clickhouse/kept-settings.js';
import { loadMigrations } from '../../clickhouse/migrate.js';
import { StartupError } from '../../errors.js';
import { mastersOf, type RedisClient } from '../../redis/client.js';
import { SCHEMA, versionOf } from '../../redis/deployment.js';
import type { Keys } from '../../redis/keys.js';
import { dumpRedis, type OnProgress } from './dump-redis.js';
import { dumpTable } from './dump-tables.js';
import { type BackupFile, type Manifest, writeManifest } from './manifest.js';
import { answerOf, TABLES } from './tables.js';

const REDIS_FILE = 'redis.gz';
export const redisPath = (folder: string) => join(folder, REDIS_FILE);
export const fileOf = (table: string) => `${table}.tsv.gz`;

export interface Databases {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly prefix: string;
  readonly clickhouse: ClickHouseClient;
  /** A client without a default database: `database` may not exist yet. */
  readonly server: ClickHouseClient;
  readonly database: string;
}

/** @param folder must be new or empty @throws StartupError, database and disk errors */
export async function backUp(
  { redis, keys, prefix, clickhouse, server, database }: Databases,
  folder: string,
  version: string,
  onProgress: OnProgress,
): Promise<Manifest> {
  const salt = await redis.hget(keys.meta, 'salt');
  if (salt === null) throw new StartupError('Redis holds no data of wishmeter under this KEY_PREFIX.');
  const fingerprint = fingerprintOf(salt);
  await refuseUnready(server, database);
  const known = await knownDeployment(clickhouse, prefix);
  if (known !== undefined && known !== fingerprint)
    throw new StartupError(
      'ClickHouse has events of another deployment than Redis holds: check REDIS_URL and CLICKHOUSE_URL.',
    );
  await makeEmpty(folder);
  const unsettled = {
    VISIT_RETENTION_DAYS: undefined,
    SHOP_TIMEZONE: undefined,
    CLICKHOUSE_CLUSTER: undefined,
  };
  const { settings } = await resolveSettings(clickhouse, database, unsettled);
  const beganAt = new Date().toISOString();

  const dump = await dumpRedis(redis, keys, { prefix, path: redisPath(folder) }, onProgress);
  const files: BackupFile[] = [{ name: REDIS_FILE, ...dump.file }];
  const rows: Record<string, number> = {};
  for (const table of TABLES) {
    const name = fileOf(table);
    const dumped = await dumpTable(clickhouse, table, join(folder, name), onProgress);
    rows[table] = dumped.rows;
    files.push({ name, bytes: dumped.bytes, sha256: dumped.sha256 });
  }

  const info = (await mastersOf(redis)[0]?.info('server')) ?? '';
  return await writeManifest(folder, {
    wishmeter: version,
    beganAt,
    endedAt: new Date().toISOString(),
    keyPrefix: prefix,
    fingerprint,
    redis: { version: versionOf(info), masters: dump.masters, schema: SCHEMA, keys: dump.keys },
    clickhouse: {
      version: await answerOf(clickhouse, 'SELECT version()'),
      migration: newestMigration(),
      timeZone: settings.SHOP_TIMEZONE,
      visitRetentionDays: settings.VISIT_RETENTION_DAYS,
      rows,
    },
    files,
  });
}

export function newestMigration(): number {
  return Math.max(...loadMigrations().map(({ version }) => version));
}

async function refuseUnready(server: ClickHouseClient, database: string): Promise<void> {
  if ((await answerOf(server, `EXISTS TABLE ${database}.schema_migrations`)) !== '1')
    throw new StartupError(`ClickHouse has no database ${database} of wishmeter: check CLICKHOUSE_DATABASE.`);
  const newest = Number(await answerOf(server, `SELECT max(version) FROM ${database}.schema_migrations`));
  if (newest !== newestMigration())
    throw new StartupError(
      `ClickHouse database ${database} has schema ${newest}, and this program knows ${newestMigration()}: back it up with the version that runs.`,
    );
}

async function makeEmpty(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if ((await readdir(folder)).length > 0)
      throw new StartupError(`${folder} is not empty: name a new folder.`);
    await chmod(folder, 0o700);
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(`${folder} can't be made (${(error as NodeJS.ErrnoException).code}).`);
  }
}

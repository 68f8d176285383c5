// Runs migrations/NNN_name.sql in order and records their checksums. ClickHouse has no transactions or locks, so every
// statement is idempotent, and several processes may run it at the same time.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { ClickHouseClient } from '@clickhouse/client';
import { StartupError } from '../errors.js';
import { select } from './client.js';
import { statementsOf } from './cluster.js';
import { loadViews } from './views.js';

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

const MIGRATIONS = new URL('../../../src/clickhouse/migrations/', import.meta.url);

const RECORDS = `
CREATE DATABASE IF NOT EXISTS {database} {on_cluster};
CREATE TABLE IF NOT EXISTS {database}.schema_migrations {on_cluster}
  (version UInt32, name String, checksum String, ran_at DateTime('UTC') DEFAULT now())
  ENGINE = {replicated}ReplacingMergeTree({everywhere}) ORDER BY (version, checksum);
`;

export function loadMigrations(): Migration[] {
  return readdirSync(MIGRATIONS)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({
      version: Number(file.slice(0, 3)),
      name: file.slice(0, -'.sql'.length),
      sql: readFileSync(new URL(file, MIGRATIONS), 'utf8'),
    }));
}

/**
 * @param options with `given`, runs these migrations instead, and creates no views
 * @throws StartupError if the database is newer than this program, or a recorded migration has changed
 */
export async function migrate(
  client: ClickHouseClient,
  database: string,
  {
    given,
    cluster = '',
    timeZone,
  }: { readonly given?: readonly Migration[]; readonly cluster?: string; readonly timeZone?: string } = {},
): Promise<string[]> {
  const migrations = given ?? loadMigrations();
  const run = async (sql: string) => {
    for (const query of statementsOf(sql, database, cluster, timeZone)) await client.command({ query });
  };
  await run(RECORDS);
  const ran = await recorded(client, database);
  refuseNewer(ran, migrations, database);

  const now: string[] = [];
  for (const migration of migrations) {
    const checksums = ran.filter(({ version }) => version === migration.version).map((r) => r.checksum);
    const checksum = createHash('sha256').update(migration.sql).digest('hex');
    if (checksums.some((c) => c !== checksum)) {
      throw new StartupError(
        `Migration ${migration.name} has changed since it ran in database ${database}: restore it, and put the change into a new one.`,
      );
    }
    if (checksums.length > 0) continue;
    await run(migration.sql);
    await client.insert({
      table: `${database}.schema_migrations`,
      values: [{ version: migration.version, name: migration.name, checksum }],
      format: 'JSONEachRow',
    });
    now.push(migration.name);
  }
  if (given === undefined) for (const { sql } of loadViews()) await run(sql);
  return now;
}

interface Recorded {
  readonly version: number;
  readonly checksum: string;
}

async function recorded(client: ClickHouseClient, database: string): Promise<Recorded[]> {
  return select(client, `SELECT DISTINCT version, checksum FROM ${database}.schema_migrations`);
}

function refuseNewer(ran: readonly Recorded[], migrations: readonly Migration[], database: string): void {
  const newest = Math.max(0, ...ran.map(({ version }) => version));
  const known = Math.max(0, ...migrations.map(({ version }) => version));
  if (newest > known) {
    throw new StartupError(
      `ClickHouse database ${database} has schema ${newest}, and this program knows ${known}: start a newer version.`,
    );
  }
}

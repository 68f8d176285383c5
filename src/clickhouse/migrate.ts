// Brings a database to the schema that this program knows: migrations/NNN_name.sql in order, each recorded
// with its checksum. ClickHouse has neither transactions nor locks for this, so that several processes may
// start at once every statement is one that can be run again (IF NOT EXISTS), and the record comes after it.
// On a cluster the same statements run in the form that cluster.ts gives them; a checksum is that of the file.
// Views are not migrated but put in place anew; see views.ts.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { ClickHouseClient } from '@clickhouse/client';
import { StartupError } from '../errors.js';
import { clustered } from './cluster.js';
import { putViews } from './views.js';

export interface Migration {
  readonly version: number;
  /** Its file, without `.sql`. */
  readonly name: string;
  /** Statements end with a `;` at the end of a line; `{database}` stands for the database's name. */
  readonly sql: string;
}

// dist/src/clickhouse/ -> the project's root; SQL is not compiled.
const MIGRATIONS = new URL('../../../src/clickhouse/migrations/', import.meta.url);

/** All migrations that this program knows, in order. */
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
 * Runs what has not run yet; safe to call from several processes at once.
 * @param client without a database of its own: this one may not exist yet
 * @param database letters, digits and `_`
 * @param options migrations other than the program's own, and then views are left alone; name of the cluster, empty for one server
 * @returns names of the migrations that ran now
 * @throws StartupError where the database is newer than this program, or a migration that ran has changed since
 * @throws ClickHouse's or the connection's error
 */
export async function migrate(
  client: ClickHouseClient,
  database: string,
  { given, cluster = '' }: { readonly given?: readonly Migration[]; readonly cluster?: string } = {},
): Promise<string[]> {
  const migrations = given ?? loadMigrations();
  const run = async (statement: string) => {
    for (const query of cluster === '' ? [statement] : clustered(statement, cluster))
      await client.command({ query });
  };
  await run(`CREATE DATABASE IF NOT EXISTS ${database}`);
  await run(`CREATE TABLE IF NOT EXISTS ${database}.schema_migrations
      (version UInt32, name String, checksum String, ran_at DateTime('UTC') DEFAULT now())
      ENGINE = ReplacingMergeTree ORDER BY (version, checksum)`);
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
    for (const statement of statements(migration.sql, database)) await run(statement);
    await client.insert({
      table: `${database}.schema_migrations`,
      values: [{ version: migration.version, name: migration.name, checksum }],
      format: 'JSONEachRow',
    });
    now.push(migration.name);
  }
  if (given === undefined) await putViews(client, database, cluster);
  return now;
}

interface Recorded {
  readonly version: number;
  readonly checksum: string;
}

async function recorded(client: ClickHouseClient, database: string): Promise<Recorded[]> {
  const answer = await client.query({
    query: `SELECT DISTINCT version, checksum FROM ${database}.schema_migrations`,
    format: 'JSONEachRow',
  });
  return await answer.json<Recorded>();
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

/** The statements of a migration, as one server takes them. */
export function statements(sql: string, database: string): string[] {
  return sql
    .replaceAll('{database}', database)
    .split(/;[ \t]*$/m)
    .filter((statement) => statement.replace(/^\s*--.*$/gm, '').trim() !== '');
}

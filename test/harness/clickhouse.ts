// ClickHouse for tests, on a free port and in a temp folder. The first test that needs a database migrates it
// into dist/test-clickhouse/, and later tests copy it.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { ClickHouseClient } from '@clickhouse/client';
import { ANALYST_TABLES } from '../../src/clickhouse/analyst-tables.js';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { loadMigrations, migrate } from '../../src/clickhouse/migrate.js';
import { loadViews } from '../../src/clickhouse/views.js';
import {
  type ClickHouseSpec,
  type EmbeddedClickHouse,
  startClickHouse,
} from '../../src/extras/embedded/clickhouse/start.js';
import type { Scope } from './redis.js';

const exec = promisify(execFile);

export interface TestClickHouseSpec extends ClickHouseSpec {
  /** Databases that exist from the start, migrated and empty. */
  readonly databases: readonly string[];
}

/** Stops when the test ends. Any number may run at the same time; the caller's `dir` is not deleted. */
export async function startTestClickHouse(
  t: Scope,
  { databases = [], ...spec }: Partial<TestClickHouseSpec> = {},
): Promise<EmbeddedClickHouse & { readonly dir: string }> {
  const dir = spec.dir ?? (await mkdtemp(join(tmpdir(), 'wm-clickhouse-')));
  if (databases.length > 0) await putMigrated(dir, ...databases);
  const server = await startClickHouse({ ...spec, dir });
  const stop = async () => {
    await server.stop();
    if (spec.dir === undefined) await rm(dir, { recursive: true, force: true });
  };
  t.teardown(stop);
  return {
    url: server.url,
    dir,
    get pid() {
      return server.pid;
    },
    stop,
  };
}

export const startReadable = (t: Scope, database: string, spec: Partial<TestClickHouseSpec> = {}) =>
  startTestClickHouse(t, { databases: [database], readable: { database, tables: ANALYST_TABLES }, ...spec });

export function connectToClickHouse(t: Scope, ...how: Parameters<typeof createClickHouse>): ClickHouseClient {
  const client = createClickHouse(...how);
  t.teardown(() => client.close());
  return client;
}

// dist/test/harness/ -> dist/
const CACHE = fileURLToPath(new URL('../../test-clickhouse/', import.meta.url));
/** The folders of ClickHouse that have a database; the other ones belong to the server. */
const FOLDERS = ['data', 'metadata', 'store'] as const;

/**
 * ClickHouse must not be running. @param dir as for `startClickHouse`; for `wishmeter start` it is
 * DATA_DIR/clickhouse
 */
export async function putMigrated(dir: string, ...databases: readonly string[]): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  for (const database of databases) await exec('tar', ['-xf', await migratedOnce(database), '-C', dir]);
}

export async function select<Row = Record<string, unknown>>(
  client: ClickHouseClient,
  query: string,
  params: Record<string, unknown> = {},
): Promise<Row[]> {
  return (await client.query({ query, query_params: params, format: 'JSONEachRow' })).json<Row>();
}

/** Empties the tables of a migrated database: much cheaper than a new one. */
export async function emptyDatabase(client: ClickHouseClient, database: string): Promise<void> {
  const filled = `SELECT name FROM system.tables WHERE database = '${database}' AND engine LIKE '%MergeTree' AND total_rows > 0
    AND name NOT IN ('schema_migrations', 'deployment', 'kept_settings')`;
  for (const { name } of await select(client, filled))
    await client.command({ query: `TRUNCATE TABLE ${database}.${name}` });
}

/**
 * An archive of the migrated database. Several processes may make it at once: each file gets its name when it
 * is complete.
 */
async function migratedOnce(database: string): Promise<string> {
  const folder = join(CACHE, await cacheKey());
  const archive = join(folder, `${database}.tar`);
  if (existsSync(archive)) return archive;
  await mkdir(folder, { recursive: true });
  const dir = await mkdtemp(join(folder, 'new-'));
  const server = await startClickHouse({ dir: join(dir, 'data'), restart: false });
  const client = createClickHouse(server.url);
  await migrate(client, database);
  await client.close();
  await server.stop();
  await exec('tar', ['-cf', join(dir, 'tar'), '-C', join(dir, 'data'), ...FOLDERS]);
  await rename(join(dir, 'tar'), archive);
  await rm(dir, { recursive: true, force: true });
  return archive;
}

/** Another schema, or another ClickHouse, which may store it otherwise, gets another folder. */
async function cacheKey(): Promise<string> {
  const { resolve } = createRequire(import.meta.url);
  const code = ['cluster.js', 'migrate.js', 'views.js'].map(
    (file) => new URL(`../../src/clickhouse/${file}`, import.meta.url),
  );
  const parts = [
    ...[...loadMigrations(), ...loadViews()].map(({ name, sql }) => `${name}\n${sql}`),
    ...(await Promise.all([...code, resolve('chdb/package.json')].map((file) => readFile(file, 'utf8')))),
  ];
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 16);
}

/** A URL with credentials for fetch: the URL without them, and the header that has them. */
export function forFetch(url: string): { readonly origin: string; readonly headers: Record<string, string> } {
  const { origin, username, password } = new URL(url);
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { origin, headers: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` } };
}

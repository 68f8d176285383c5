// Settings stored in ClickHouse, so that a command without them can't delete visits or change views by accident.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { StartupError } from '../errors.js';
import { select } from './client.js';

export interface KeptSettings {
  readonly VISIT_RETENTION_DAYS: number;
  readonly SHOP_TIMEZONE: string;
  readonly CLICKHOUSE_CLUSTER: string;
}

export type GivenSettings = { readonly [Name in keyof KeptSettings]: KeptSettings[Name] | undefined };

export interface SettingChange {
  readonly setting: keyof KeptSettings;
  readonly from: string;
  readonly to: string;
}

export interface ResolvedSettings {
  readonly settings: KeptSettings;
  readonly changes: readonly SettingChange[];
}

const DEFAULTS: KeptSettings = { VISIT_RETENTION_DAYS: 400, SHOP_TIMEZONE: 'UTC', CLICKHOUSE_CLUSTER: '' };
const TABLE = 'kept_settings';
const REFRESH_MS = 60_000;
const RETRY_MS = 1_000;
const PATIENCE_MS = 2_000;

/** @param given takes precedence over stored settings @throws StartupError if the database is another cluster's */
export async function resolveSettings(
  client: ClickHouseClient,
  database: string,
  given: GivenSettings,
): Promise<ResolvedSettings> {
  const kept = await readKept(client, database);
  const cluster = given.CLICKHOUSE_CLUSTER || undefined;
  if (kept !== undefined && cluster !== undefined && cluster !== kept.CLICKHOUSE_CLUSTER) {
    const was = kept.CLICKHOUSE_CLUSTER === '' ? 'one server' : `the cluster ${kept.CLICKHOUSE_CLUSTER}`;
    throw new StartupError(
      `ClickHouse database ${database} was made for ${was}, and CLICKHOUSE_CLUSTER is ${cluster}: a database is not moved. Give another CLICKHOUSE_DATABASE.`,
    );
  }
  const before = kept ?? DEFAULTS;
  const settings: KeptSettings = {
    VISIT_RETENTION_DAYS: given.VISIT_RETENTION_DAYS ?? before.VISIT_RETENTION_DAYS,
    SHOP_TIMEZONE: given.SHOP_TIMEZONE ?? before.SHOP_TIMEZONE,
    CLICKHOUSE_CLUSTER: cluster ?? before.CLICKHOUSE_CLUSTER,
  };
  const names = Object.keys(DEFAULTS) as (keyof KeptSettings)[];
  const changes = names
    .filter((name) => kept !== undefined && kept[name] !== settings[name])
    .map((name) => ({ setting: name, from: String(before[name]), to: String(settings[name]) }));
  return { settings, changes };
}

export async function keepSettings(
  client: ClickHouseClient,
  database: string,
  settings: Partial<KeptSettings>,
): Promise<void> {
  const kept = await readKept(client, database);
  const values = Object.entries(settings)
    .filter(([name, value]) => value !== undefined && kept?.[name as keyof KeptSettings] !== value)
    .map(([name, value]) => ({ name, value: String(value) }));
  if (values.length > 0)
    await client.insert({ table: `${database}.${TABLE}`, values, format: 'JSONEachRow' });
}

/** @returns a function that reads the time zone; if ClickHouse doesn't answer soon, it returns the last one, or UTC */
export function watchTimeZone(client: ClickHouseClient, database: string): () => Promise<string> {
  let known = DEFAULTS.SHOP_TIMEZONE;
  let reading: Promise<unknown> | undefined;
  let isDueAt = 0;
  return async () => {
    if (reading === undefined && performance.now() >= isDueAt) {
      isDueAt = performance.now() + RETRY_MS;
      reading = readKept(client, database)
        .then((kept) => {
          known = kept?.SHOP_TIMEZONE ?? DEFAULTS.SHOP_TIMEZONE;
          isDueAt = performance.now() + REFRESH_MS;
        })
        .catch(() => {})
        .finally(() => {
          reading = undefined;
        });
    }
    await Promise.race([reading, sleep(PATIENCE_MS, undefined, { ref: false })]);
    return known;
  };
}

export async function visitsBeyond(
  client: ClickHouseClient,
  database: string,
  days: number,
): Promise<number> {
  if (days === 0 || !(await hasTable(client, database, 'visits_stored'))) return 0;
  const query = `SELECT toUInt32(count()) AS visits FROM ${database}.visits_stored
    WHERE occurred_at < toStartOfDay(now('UTC')) - toIntervalDay({days: UInt32})`;
  const [row] = await select<{ visits: number }>(client, query, { query_params: { days } });
  return row?.visits ?? 0;
}

async function readKept(client: ClickHouseClient, database: string): Promise<KeptSettings | undefined> {
  if (!(await hasTable(client, database, TABLE))) return undefined;
  const query = `SELECT name, argMax(value, kept_at) AS value FROM ${database}.${TABLE} GROUP BY name`;
  const rows = await select<{ name: string; value: string }>(client, query);
  if (rows.length === 0) return undefined;
  const kept = { ...DEFAULTS, ...Object.fromEntries(rows.map(({ name, value }) => [name, value])) };
  return { ...kept, VISIT_RETENTION_DAYS: Number(kept.VISIT_RETENTION_DAYS) };
}

async function hasTable(client: ClickHouseClient, database: string, name: string): Promise<boolean> {
  const query = 'SELECT 1 FROM system.tables WHERE database = {database: String} AND name = {name: String}';
  return (await select(client, query, { query_params: { database, name } })).length > 0;
}

// The views that analysts ask, one file each in views/: a line that says what it answers, then the SELECT. They are put
// in place when the database is migrated: what is missing, of another version or changed by hand is made anew.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ClickHouseClient } from '@clickhouse/client';
import { onCluster } from './cluster.js';
import { EVENT_COLUMNS, PURCHASE_COLUMNS } from './columns.js';

export interface View {
  readonly name: string;
  /** What it answers, in a line. */
  readonly about: string;
  /** `{database}` stands for the database's name. */
  readonly sql: string;
}

/** The questions of docs/analysts.md, in its order. */
export const QUESTIONS = [
  'most_wished',
  'open_wishes',
  'momentum',
  'wish_rate',
  'looked_never_wished',
  'before_the_wish',
  'wish_to_cart',
  'wish_to_purchase',
  'shop_funnel',
  'wishers_returning',
  'restock_and_price_drops',
  'adds_by_source',
] as const;

/** All of them. A view comes after those that it reads. */
export const VIEWS: readonly string[] = [
  'events',
  'visits',
  'purchases',
  'profile_merges',
  'events_by_visitor',
  'visits_by_visitor',
  'purchases_by_visitor',
  'events_per_day',
  'top_products',
  'shares_by_channel',
  'open_visit_days',
  'visits_per_day',
  'visitors_per_day',
  'products',
  'product_variants',
  'products_by_number',
  'variants_by_number',
  'visitor_merges',
  'steps_by_visitor',
  'looks_by_visitor',
  'wishes_followed',
  'product_funnel',
  ...QUESTIONS,
];

// dist/src/clickhouse/ -> the project's root; SQL is not compiled.
const FOLDER = new URL('../../../src/clickhouse/views/', import.meta.url);

export function loadViews(): View[] {
  return VIEWS.map((name) => {
    const sql = readFileSync(new URL(`${name}.sql`, FOLDER), 'utf8')
      .replace('{event_columns}', EVENT_COLUMNS)
      .replace('{purchase_columns}', PURCHASE_COLUMNS);
    const [, about] = /^-- (.+)\n/.exec(sql) ?? [];
    if (about === undefined) throw new Error(`${name}.sql does not say what it answers`);
    return { name, about, sql };
  });
}

/**
 * Puts the views in place that are not. Several processes may do so at once, and readers never find one missing.
 * @param client with any database
 * @param database migrated
 * @param cluster name, empty for one server
 * @returns names of those that were put
 * @throws ClickHouse's or the connection's error
 */
export async function putViews(client: ClickHouseClient, database: string, cluster = ''): Promise<string[]> {
  const views = loadViews();
  const [recorded, shown] = [await putBefore(client, database), await shownNow(client, database)];
  const put: View[] = [];
  for (const view of views) {
    const is = shown.get(view.name);
    const was = recorded.get(view.name);
    if (is !== undefined && was?.definition === checksum(view.sql) && was.shown === is) continue;
    const about = view.about.replaceAll("'", "''");
    const select = view.sql.replaceAll('{database}', database);
    await client.command({
      query: `CREATE OR REPLACE VIEW ${database}.${view.name}${onCluster(cluster)} AS\n${select}COMMENT '${about}'`,
    });
    put.push(view);
  }
  if (put.length === 0) return [];
  const after = await shownNow(client, database);
  await client.insert({
    table: `${database}.views_put`,
    values: put.map(({ name, sql }) => ({
      name,
      definition: checksum(sql),
      shown: after.get(name) ?? '',
    })),
    columns: ['name', 'definition', 'shown'],
    format: 'JSONEachRow',
  });
  return put.map(({ name }) => name);
}

async function putBefore(client: ClickHouseClient, database: string) {
  const answer = await client.query({
    query: `SELECT name, definition, shown FROM ${database}.views_put FINAL`,
    format: 'JSONEachRow',
  });
  const rows = await answer.json<{ name: string; definition: string; shown: string }>();
  return new Map(rows.map((row) => [row.name, row]));
}

/** Checksums of what ClickHouse shows of each view. */
async function shownNow(client: ClickHouseClient, database: string): Promise<Map<string, string>> {
  const answer = await client.query({
    query: `SELECT name, create_table_query AS shown FROM system.tables
      WHERE database = {database: String} AND engine = 'View'`,
    query_params: { database },
    format: 'JSONEachRow',
  });
  const rows = await answer.json<{ name: string; shown: string }>();
  return new Map(rows.map(({ name, shown }) => [name, checksum(shown)]));
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

// The tables of a backup, in the order of dump and restore. Materialized views fill merges, steps and purchases, which
// are not dumped. They fill products and hours, too, but these are dumped: no other table has the products of erased
// events, and the times when an hour's last row was inserted.
//
// - Products come after events, and hours after visits, so that none is missing for a dumped row.
// - Days come after visits: visits are deleted after their day is sealed, so a dump that lacks them has the seal.
// - Totals come after days: a day's row is written after its totals.

import type { ClickHouseClient } from '@clickhouse/client';

export const TABLES = [
  'events_stored',
  'products_stored',
  'visits_stored',
  'visit_hours',
  'visit_days_stored',
  'visits_per_day_stored',
  'visitors_per_day_stored',
] as const;
export type Table = (typeof TABLES)[number];

/** After a restore, these may have more rows than in the backup. */
export const FED_AS_WELL: ReadonlySet<string> = new Set(['products_stored', 'visit_hours'] satisfies Table[]);

/** Filled by materialized views only. */
const FED = ['profile_merges_stored', 'steps_stored', 'purchases_stored'] as const;

/** Repeated rows count once. */
export async function countRows(client: ClickHouseClient, table: string): Promise<number> {
  return Number(await answerOf(client, `SELECT count() FROM ${table} FINAL`));
}

export async function anyTable(client: ClickHouseClient, database: string): Promise<string | undefined> {
  for (const table of [...TABLES, ...FED]) {
    const name = `${database}.${table}`;
    if ((await answerOf(client, `EXISTS TABLE ${name}`)) !== '1') continue;
    if ((await answerOf(client, `SELECT count() FROM (SELECT 1 FROM ${name} LIMIT 1)`)) !== '0') return name;
  }
  return undefined;
}

export async function answerOf(client: ClickHouseClient, query: string): Promise<string> {
  const answer = await client.query({ query, format: 'TabSeparated' });
  return (await answer.text()).trim();
}

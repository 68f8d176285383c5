// The tables of a backup, in the order of dump and restore. Tables that materialized views fill (merges, steps,
// purchases) are left out: inserting the source rows fills them again. Two such tables are included, since they hold
// more than the source rows: products of erased events, and when an hour's last row was inserted.
//
// - Products follow events and hours follow visits, so that they cover those rows; views add the rest in the restore.
// - Days follow visits: visits are deleted after their day is sealed, so a dump that lacks them has the seal.
// - Totals follow days: a day's row is written after its totals.

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

/** A restore may give these more rows than the backup has. */
export const FED_AS_WELL: ReadonlySet<string> = new Set(['products_stored', 'visit_hours'] satisfies Table[]);

/** Only views fill these. */
const FED = ['profile_merges_stored', 'steps_stored', 'purchases_stored'] as const;

/** Counts repeated rows once. */
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

// The tables of a backup, in the order in which they are read and written.
//
// Only tables that nothing feeds, and two that are fed and remember more than their feeds' rows: facts of products whose events
// were erased, and when a row of an hour came in last. What is fed from rows (merges, steps, purchases) is fed again by their
// insert, so it never says anything else than the rows.
//
// - products after events, hours after visits: the later table says what the rows say, but for an insert that was between its
//   table and its feed. The restore's own feed says that again.
// - closed days after visits: visits are deleted once their day is sealed. If they are gone, the seal is in the backup.
// - totals after closed days: a day is closed once its totals are there.

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

/** Fed as well: these may have more rows after a restore than in the backup. */
export const FED_AS_WELL: ReadonlySet<string> = new Set(['products_stored', 'visit_hours'] satisfies Table[]);

/** Fed from others, and empty before a restore as well. */
const FED = ['profile_merges_stored', 'steps_stored', 'purchases_stored'] as const;

/** Rows of a table, repeated ones once. @throws ClickHouse's or the connection's error */
export async function countRows(client: ClickHouseClient, table: string): Promise<number> {
  return Number(await answerOf(client, `SELECT count() FROM ${table} FINAL`));
}

/** A table that has rows; undefined if all are empty, or the database is not there. @throws as `countRows` */
export async function anyTable(client: ClickHouseClient, database: string): Promise<string | undefined> {
  for (const table of [...TABLES, ...FED]) {
    const name = `${database}.${table}`;
    if ((await answerOf(client, `EXISTS TABLE ${name}`)) !== '1') continue;
    if ((await answerOf(client, `SELECT count() FROM (SELECT 1 FROM ${name} LIMIT 1)`)) !== '0') return name;
  }
  return undefined;
}

/** The one value that a statement answers with. @throws as `countRows` */
export async function answerOf(client: ClickHouseClient, query: string): Promise<string> {
  const answer = await client.query({ query, format: 'TabSeparated' });
  return (await answer.text()).trim();
}

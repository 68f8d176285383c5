// VISIT_RETENTION_DAYS: for how long ClickHouse keeps rows of visits, as a TTL of their table. Whole days go, so that a day
// that can still be totalled (daily-totals.ts) has all of its visits. The totals themselves stay for ever.

import type { ClickHouseClient } from '@clickhouse/client';
import { localTable, onCluster } from './cluster.js';

const TABLE = 'visits_stored';

/**
 * Sets the TTL, where it is another one.
 * @param client without a database of its own @param days that a visit is kept at least; 0 is for ever
 * @param cluster name, empty for one server
 * @returns whether it was another one @throws ClickHouse's or the connection's error
 */
export async function keepVisitsFor(
  client: ClickHouseClient,
  database: string,
  days: number,
  cluster = '',
): Promise<boolean> {
  const table = localTable(TABLE, cluster);
  if ((await keptFor(client, database, table)) === days) return false;
  // A visit goes when its day is over for so long. ClickHouse then looks at all parts again, in the background.
  const change =
    days === 0 ? 'REMOVE TTL' : `MODIFY TTL toStartOfDay(occurred_at) + toIntervalDay(${days + 1})`;
  await client.command({ query: `ALTER TABLE ${database}.${table}${onCluster(cluster)} ${change}` });
  return true;
}

/** As the table has it; 0 where it has no TTL. */
async function keptFor(client: ClickHouseClient, database: string, name: string): Promise<number> {
  const answer = await client.query({
    query: `SELECT engine_full FROM system.tables
      WHERE database = {database: String} AND name = {name: String}`,
    query_params: { database, name },
    format: 'JSONEachRow',
  });
  const [found] = await answer.json<{ engine_full: string }>();
  const days = /\bTTL toStartOfDay\(occurred_at\) \+ toIntervalDay\((\d+)\)/.exec(
    found?.engine_full ?? '',
  )?.[1];
  return days === undefined ? 0 : Number(days) - 1;
}

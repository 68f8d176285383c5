// Restores a backup's tables into an empty database after all migrations. Materialized views fill the other tables.

import type { ClickHouseClient } from '@clickhouse/client';
import { localTable, onCluster } from '../../clickhouse/cluster.js';
import { insertRows } from '../../clickhouse/insert.js';
import { readChecked } from './checked-file.js';
import type { OnProgress } from './dump-redis.js';

const INSERT_BYTES = 16 * 1024 * 1024;

interface TableDump {
  readonly table: string;
  readonly path: string;
  readonly cluster: string;
}

export async function restoreTable(
  client: ClickHouseClient,
  { table, path, cluster }: TableDump,
  onProgress: OnProgress,
): Promise<void> {
  // Restoring the visits has filled this table with the current time, which would reopen every day.
  if (table === 'visit_hours')
    await client.command({ query: `TRUNCATE TABLE ${localTable(table, cluster)}${onCluster(cluster)}` });
  let columns: readonly string[] | undefined;
  let parts: Buffer[] = [];
  let size = 0;
  let inserted = 0;
  const insertWhole = async () => {
    const bytes = Buffer.concat(parts);
    let from = 0;
    if (columns === undefined) {
      from = bytes.indexOf('\n') + 1;
      columns = bytes.toString('utf8', 0, from - 1).split('\t');
    }
    const to = bytes.lastIndexOf('\n') + 1;
    if (to > from) await insertRows(client, table, columns, bytes.subarray(from, to));
    inserted += to - from;
    onProgress(`ClickHouse, ${table}, bytes`, inserted);
    parts = [bytes.subarray(to)];
    size = bytes.length - to;
  };
  for await (const chunk of readChecked(path)) {
    parts.push(chunk);
    size += chunk.length;
    if (size >= INSERT_BYTES) await insertWhole();
  }
  await insertWhole();
  if (table === 'visit_hours')
    await client.command({
      query: `INSERT INTO visit_hours SELECT toStartOfHour(occurred_at) AS hour, now64(3, 'UTC') FROM visits_stored
        WHERE hour NOT IN (SELECT hour FROM visit_hours) GROUP BY hour`,
    });
}

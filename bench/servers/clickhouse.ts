// ClickHouse for the benchmark: the one that `wishmeter start` runs, and what it tells of a table.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';

/** The rows of a query. */
export async function rowsOf<T>(clickhouse: ClickHouseClient, query: string): Promise<T[]> {
  const result = await clickhouse.query({ query, format: 'JSONEachRow' });
  return await result.json<T>();
}

/** Resolves when no merge of parts runs. */
export async function untilMerged(clickhouse: ClickHouseClient): Promise<void> {
  for (;;) {
    const [row] = await rowsOf<{ merges: number }>(
      clickhouse,
      'SELECT toUInt32(count()) AS merges FROM system.merges',
    );
    if (row?.merges === 0) return;
    await sleep(100);
  }
}

export interface Disk {
  readonly rows: number;
  readonly parts: number;
  readonly bytesPerRow: number;
}

/** What the rows of a table take on disk: columns, index, marks, all of it. */
export async function diskOf(
  clickhouse: ClickHouseClient,
  database: string,
  name: 'events_stored' | 'visits_stored' = 'events_stored',
): Promise<Disk> {
  const [row] = await rowsOf<{ rows: number; parts: number; bytes: number }>(
    clickhouse,
    `SELECT toFloat64(sum(rows)) AS rows, toFloat64(count()) AS parts, toFloat64(sum(bytes_on_disk)) AS bytes
     FROM system.parts WHERE active AND database = '${database}' AND table = '${name}'`,
  );
  if (!row) throw new Error(`${database} has no rows in ${name}`);
  return { rows: row.rows, parts: row.parts, bytesPerRow: row.bytes / row.rows };
}

/** Compressed bytes per row of each column, the largest first. */
export async function columnsOf(
  clickhouse: ClickHouseClient,
  database: string,
): Promise<Readonly<Record<string, number>>> {
  const rows = await rowsOf<{ name: string; bytes: number }>(
    clickhouse,
    `SELECT column AS name, sum(column_data_compressed_bytes) / sum(rows) AS bytes FROM system.parts_columns
     WHERE active AND database = '${database}' AND table = 'events_stored' GROUP BY name ORDER BY bytes DESC`,
  );
  return Object.fromEntries(rows.map(({ name, bytes }) => [name, bytes]));
}

// Queries of the benchmark to the ClickHouse that `wishmeter start` runs.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { select } from '../../src/clickhouse/client.js';

/** Resolves when no merge of parts runs. */
export async function untilMerged(clickhouse: ClickHouseClient): Promise<void> {
  for (;;) {
    const [row] = await select<{ merges: number }>(
      clickhouse,
      'SELECT toUInt32(count()) AS merges FROM system.merges',
    );
    if (row?.merges === 0) return;
    await sleep(100);
  }
}

/** Bytes on disk of a row of `events_stored`: columns, index, marks, all of it. */
export async function bytesPerRow(clickhouse: ClickHouseClient, database: string): Promise<number> {
  const [row] = await select<{ bytes: number }>(
    clickhouse,
    `SELECT sum(bytes_on_disk) / sum(rows) AS bytes FROM system.parts
     WHERE active AND database = '${database}' AND table = 'events_stored'`,
  );
  if (!row) throw new Error(`${database} has no events`);
  return row.bytes;
}

// Dumps a ClickHouse table: a line of column names, then a line per row. A restore can split lines, but not the format
// Native, into inserts below 64 MiB, the embedded ClickHouse's limit.

import type { ClickHouseClient } from '@clickhouse/client';
import { StartupError } from '../../errors.js';
import { createChecked, type FileSum } from './checked-file.js';
import type { OnProgress } from './dump-redis.js';

/** The last line of a complete answer. No row contains it, since values are escaped. */
const END = '\\wishmeter end of table\n';
const LINE_FEED = 0x0a;

export async function dumpTable(
  client: ClickHouseClient,
  table: string,
  path: string,
  onProgress: OnProgress,
): Promise<FileSum & { rows: number }> {
  const file = createChecked(path);
  let sum: FileSum;
  let lines = 0;
  try {
    const { stream } = await client.exec({
      query: `SELECT * FROM ${table} FINAL FORMAT CustomSeparatedWithNames`,
      clickhouse_settings: {
        format_custom_escaping_rule: 'Escaped',
        format_custom_result_after_delimiter: END,
        // Rows that replace each other have the same sort key, which determines their partition.
        do_not_merge_across_partitions_select_final: 1,
        max_execution_time: 0,
        max_result_rows: '0',
        max_result_bytes: '0',
      },
    });
    let held = Buffer.alloc(0);
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      const bytes = Buffer.concat([held, chunk]);
      const ready = Math.max(bytes.length - END.length, 0);
      lines += await write(bytes.subarray(0, ready));
      held = bytes.subarray(ready);
    }
    // ClickHouse can't change the status after a late error, and not every version closes the connection.
    if (held.toString('latin1') !== END)
      throw new StartupError(
        `ClickHouse broke off its answer with the rows of ${table}: there is no backup.`,
      );
  } finally {
    sum = await file.close();
  }
  return { ...sum, rows: lines - 1 };

  async function write(bytes: Buffer): Promise<number> {
    let ended = 0;
    for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) ended++;
    await file.write(bytes);
    onProgress(`ClickHouse, ${table}`, lines + ended);
    return ended;
  }
}

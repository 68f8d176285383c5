// Inserts lines as one block. Rows inserted twice count once: tables merge them, and the views show one.

import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';

/** With 9.5 MB per insert, a row costs ClickHouse 1.5 times as much, mostly in merges. */
export const INSERT_BYTES = 48_000_000;
export const INSERT_ROWS = 100_000;
export const INSERT_VISITS = 400_000;

const EVENTS = 'INSERT INTO events_stored FORMAT JSONEachRow';
const VISITS = `INSERT INTO visits_stored (occurred_at, stream, entry, line, profile_id, product_handle, device)
  FORMAT TabSeparated`;

const SETTINGS = {
  // Otherwise ClickHouse sends 200 before the insert is done, and errors only in the body.
  send_progress_in_http_headers: 0,
  async_insert: 0,
  // A killed ClickHouse may remember a block whose rows are lost or did not reach all materialized views. It would drop
  // the repeated insert.
  insert_deduplicate: 0,
  input_format_parallel_parsing: 0,
  // Imported wishes span months, and each month is a partition.
  max_partitions_per_insert_block: '0',
  max_insert_block_size: '1048576',
  min_insert_block_size_rows: '1048576',
  min_insert_block_size_bytes: '268435456',
  input_format_skip_unknown_fields: 1,
  input_format_json_read_objects_as_strings: 1,
  date_time_input_format: 'best_effort',
} as const;

// Looking for repeats takes a third of an insert's CPU. Only retried dead letters may be twice in an insert, and
// ClickHouse merges them later.
const VISIT_SETTINGS = { ...SETTINGS, optimize_on_insert: 0 } as const;

/** @param lines TabSeparated; times in seconds, with milliseconds as decimals */
export function insertVisits(client: ClickHouseClient, lines: Buffer, signal: AbortSignal): Promise<void> {
  return insert(client, { query: VISITS, settings: VISIT_SETTINGS }, lines, signal);
}

/** @throws ClickHouse's or the connection's error (see `blame`), or AbortError */
export function insertEvents(client: ClickHouseClient, lines: Buffer, signal: AbortSignal): Promise<void> {
  return insert(client, { query: EVENTS, settings: SETTINGS }, lines, signal);
}

export function insertRows(
  client: ClickHouseClient,
  table: string,
  columns: readonly string[],
  lines: Buffer,
): Promise<void> {
  const query = `INSERT INTO ${table} (${columns.join(', ')}) FORMAT TabSeparated`;
  return insert(client, { query, settings: SETTINGS }, lines, new AbortController().signal);
}

async function insert(
  client: ClickHouseClient,
  { query, settings }: { readonly query: string; readonly settings: ClickHouseSettings },
  lines: Buffer,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const { stream } = await client.exec({
    query,
    values: Readable.from([lines], { objectMode: false }),
    clickhouse_settings: settings,
    abort_signal: signal,
  });
  // Success is an empty body. Reading it frees the socket.
  const answer = await text(stream);
  if (answer.trim() === '') return;
  // The error is logged, so it must not quote a line.
  const code = /\bCode: (\d+)/.exec(answer)?.[1] ?? 'none';
  throw new Error(`ClickHouse answered an insert with 200 and an error (code ${code})`);
}

// Inserts lines of events or visits as one block. Every row has a name: if lines are inserted again, the tables may store them
// twice until their parts merge, and the views show each row once.

import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';

/** Maximum bytes of one insert. With 9.5 MB a row cost ClickHouse half as much again, most of it in merges. */
export const INSERT_BYTES = 48_000_000;
/** Maximum rows of one insert of events. */
export const INSERT_ROWS = 100_000;
/** Maximum rows of one insert of visits, which are short. */
export const INSERT_VISITS = 400_000;

const EVENTS = 'INSERT INTO events_stored FORMAT JSONEachRow';
const VISITS = `INSERT INTO visits_stored (occurred_at, stream, entry, place, profile_id, product_handle, device)
  FORMAT TabSeparated`;

const SETTINGS = {
  // ClickHouse must not send the status before the insert is done: after a 200 only the body would have the error.
  send_progress_in_http_headers: 0,
  // One insert is one block, whatever the server's profile says.
  async_insert: 0,
  // No deduplication of blocks: a killed ClickHouse may remember a block whose rows are lost or did not reach all materialized
  // views. All these tables treat a repeated row as one.
  insert_deduplicate: 0,
  input_format_parallel_parsing: 0,
  // Imported wishes are of many months, and each month is a partition.
  max_partitions_per_insert_block: '0',
  max_insert_block_size: '1048576',
  min_insert_block_size_rows: '1048576',
  min_insert_block_size_bytes: '268435456',
  // A newer `serve` may send more fields; they must not stop the stream.
  input_format_skip_unknown_fields: 1,
  // `payload` may be an object; it is stored as text.
  input_format_json_read_objects_as_strings: 1,
  date_time_input_format: 'best_effort',
} as const;

// An insert has no visit twice; to check that would take a third of its CPU. (RowBinary is no faster than TabSeparated.)
const VISIT_SETTINGS = { ...SETTINGS, optimize_on_insert: 0 } as const;

/**
 * @param client with the database that holds `visits_stored`
 * @param lines TabSeparated, each line ended by \n: milliseconds since 1970 as seconds, stream, entry, place, profile, product, device
 * @throws as `insertEvents`
 */
export function insertVisits(client: ClickHouseClient, lines: Buffer, signal: AbortSignal): Promise<void> {
  return insert(client, VISITS, VISIT_SETTINGS, lines, signal);
}

/**
 * @param client with the database that holds `events_stored`
 * @param lines JSONEachRow, each line ended by \n
 * @throws ClickHouse's or the connection's error (see `blame`), or AbortError
 */
export function insertEvents(client: ClickHouseClient, lines: Buffer, signal: AbortSignal): Promise<void> {
  return insert(client, EVENTS, SETTINGS, lines, signal);
}

/**
 * @param lines TabSeparated as ClickHouse writes it, with these columns
 * @throws as `insertEvents`
 */
export function insertRows(
  client: ClickHouseClient,
  table: string,
  columns: readonly string[],
  lines: Buffer,
): Promise<void> {
  const query = `INSERT INTO ${table} (${columns.join(', ')}) FORMAT TabSeparated`;
  return insert(client, query, SETTINGS, lines, new AbortController().signal);
}

async function insert(
  client: ClickHouseClient,
  query: string,
  settings: ClickHouseSettings,
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
  // A successful insert has an empty body. Reading it also frees the socket.
  const answer = await text(stream);
  if (answer.trim() === '') return;
  // This message is logged, so it must not contain the text, which may quote a line.
  const code = /\bCode: (\d+)/.exec(answer)?.[1] ?? 'none';
  throw new Error(`ClickHouse answered an insert with 200 and an error (code ${code})`);
}

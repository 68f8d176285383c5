// Inserts lines of events, or of visits, as one block. Every row has a name, so the same lines sent again are the same rows:
// the tables store them twice until their parts merge, and the views show each once.

import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';

/** Bytes that one insert has at most. Of 9.5 MB each they cost ClickHouse half as much again per row, most of it in merges. */
export const INSERT_BYTES = 48_000_000;
/** Rows that one insert has at most. */
export const INSERT_ROWS = 100_000;

/** Of visits; they are short. */
export const INSERT_VISITS = 400_000;

const EVENTS = 'INSERT INTO events_stored FORMAT JSONEachRow';
const VISITS = `INSERT INTO visits_stored (occurred_at, stream, entry, place, profile_id, product_handle, device)
  FORMAT TabSeparated`;

const SETTINGS = {
  // The status is not told before the insert is done, whatever the server's profile says: after a 200 only
  // the body would tell of an error.
  send_progress_in_http_headers: 0,
  // One insert, one block, whatever the server's profile says.
  async_insert: 0,
  // A block that ClickHouse already has is stored again: a ClickHouse that was killed may remember the block and have lost its
  // rows, or not have fed what is kept of merges, products and days. All these tables take a row twice as once.
  insert_deduplicate: 0,
  input_format_parallel_parsing: 0,
  max_insert_block_size: '1048576',
  min_insert_block_size_rows: '1048576',
  min_insert_block_size_bytes: '268435456',
  // A producer that is newer than the table must not stop the stream.
  input_format_skip_unknown_fields: 1,
  // `payload` may be an object: it is kept as the text that it is.
  input_format_json_read_objects_as_strings: 1,
  date_time_input_format: 'best_effort',
} as const;

// No visit is in one insert twice: to look for that takes a third of ClickHouse's CPU for them. (FINAL looks, all the
// same. RowBinary in place of TabSeparated is no faster.)
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
 * @throws ClickHouse's or the connection's error, for `blame`; an error of its own where the signal aborts
 */
export function insertEvents(client: ClickHouseClient, lines: Buffer, signal: AbortSignal): Promise<void> {
  return insert(client, EVENTS, SETTINGS, lines, signal);
}

/**
 * @param lines TabSeparated, of these columns; those that ClickHouse wrote itself
 * @throws as `insertEvents`
 */
export function insertRows(
  client: ClickHouseClient,
  table: string,
  columns: readonly string[],
  lines: Buffer,
): Promise<void> {
  const query = `INSERT INTO ${table} (${columns.join(', ')}) FORMAT TabSeparated`;
  const settings = { ...SETTINGS, max_partitions_per_insert_block: '0' };
  return insert(client, query, settings, lines, new AbortController().signal);
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
  // An insert answers nothing. What a 200 has in its body is an error that came too late for the status, or
  // another request's answer. (Read to its end in any case: that gives the socket back.)
  const answer = await text(stream);
  // Of what it says only the number is told: the text may quote a line, and this message goes to the log.
  if (answer.trim() === '') return;
  const code = /\bCode: (\d+)/.exec(answer)?.[1] ?? 'none';
  throw new Error(`ClickHouse answered an insert with 200 and an error (code ${code})`);
}

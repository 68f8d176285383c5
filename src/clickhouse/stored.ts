// Whether events are in the table. An insert that is answered with 200 says so itself, but for a repeat: a MergeTree
// writes a block's deduplication token to its log before it commits the part, one record per month (MergeTreeSink.cpp,
// finishDelayedChunk), and a server that is killed in between takes the repeat for a duplicate of rows that are not there.

import type { ClickHouseClient } from '@clickhouse/client';

/** Ids in one query: 195 KB of text, below ClickHouse's default max_query_size. */
const IDS = 5_000;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;
const NEWLINE = 0x0a;

interface Chunk {
  readonly ids: ReadonlySet<string>;
  /** First and last `occurred_at`, milliseconds since 1970: the table is sorted and partitioned by it. */
  readonly from: number;
  readonly to: number;
}

/**
 * @param client with the database that holds `events_stored`
 * @param lines JSONEachRow, each line ended by \n
 * @returns false also where a line has no id or time that can be read
 * @throws ClickHouse's or the connection's error; the signal's reason when it aborts
 */
export async function areStored(
  client: ClickHouseClient,
  lines: Buffer,
  signal: AbortSignal,
): Promise<boolean> {
  for (const chunk of chunksOf(lines)) {
    if (chunk === undefined) return false;
    signal.throwIfAborted(); // the client looks at it only once it has begun
    const { ids, from, to } = chunk;
    const answer = await client.query({
      query: `SELECT toUInt32(uniqExact(event_id)) AS found FROM events_stored
        WHERE occurred_at BETWEEN fromUnixTimestamp64Milli(${from}) AND fromUnixTimestamp64Milli(${to})
        AND event_id IN ('${[...ids].join("','")}')`,
      format: 'JSONEachRow',
      abort_signal: signal,
    });
    const [row] = await answer.json<{ found: number }>();
    if (row?.found !== ids.size) return false;
  }
  return true;
}

/** Lines in their order, which is about that of their times; undefined for a chunk with a line that can't be read. */
function* chunksOf(lines: Buffer): Generator<Chunk | undefined> {
  for (let start = 0; start < lines.length; ) {
    const ids = new Set<string>();
    let from = Number.POSITIVE_INFINITY;
    let to = Number.NEGATIVE_INFINITY;
    while (start < lines.length && ids.size < IDS) {
      const end = lines.indexOf(NEWLINE, start) + 1 || lines.length;
      const event = readLine(lines.toString('utf8', start, end));
      if (event === undefined) return yield undefined;
      ids.add(event.id);
      from = Math.min(from, event.at);
      to = Math.max(to, event.at);
      start = end;
    }
    yield { ids, from, to };
  }
}

function readLine(line: string): { readonly id: string; readonly at: number } | undefined {
  try {
    const { event_id, occurred_at } = JSON.parse(line);
    const id = String(event_id).toLowerCase();
    const at = new Date(occurred_at).getTime();
    return UUID.test(id) && !Number.isNaN(at) ? { id, at } : undefined;
  } catch {
    return undefined;
  }
}

// Whether events, or visits, are in their table. An insert that is answered with 200 says so itself, but for a repeat:
// a MergeTree writes a block's deduplication token to its log before it commits the part, one record per month
// (MergeTreeSink.cpp, finishDelayedChunk), and a server that is killed in between takes the repeat for a duplicate of
// rows that are not there.

import type { ClickHouseClient } from '@clickhouse/client';

/** Ids in one query: 195 KB of text, below ClickHouse's default max_query_size. */
const IDS = 5_000;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;
const NEWLINE = 0x0a;

/** Lines of visits in one query: 200 KB of text at most. */
const VISITS_IN_QUERY = 2_500;
const VISIT = /^(\d+)\.(\d{3})\t(\d+)\t(\d+)\t(\d+)\t([\w.-]+)\t/;

/** Rows that one query asks for. */
interface Chunk {
  /** Their names, as ClickHouse writes them; each is there once. */
  readonly names: ReadonlySet<string>;
  /** First and last `occurred_at`, milliseconds since 1970: the tables are sorted and partitioned by it. */
  readonly from: number;
  readonly to: number;
}

/** How rows of a table are found. */
interface Naming {
  readonly table: string;
  /** The columns that name a row, as ClickHouse's expression. */
  readonly expression: string;
  readonly rowsInQuery: number;
  /** A line's name and its time; undefined where it has none. */
  read(line: string): { readonly name: string; readonly at: number } | undefined;
}

const EVENTS: Naming = {
  table: 'events_stored',
  expression: 'event_id',
  rowsInQuery: IDS,
  read(line) {
    try {
      const { event_id, occurred_at } = JSON.parse(line);
      const id = String(event_id).toLowerCase();
      const at = new Date(occurred_at).getTime();
      return UUID.test(id) && !Number.isNaN(at) ? { name: `'${id}'`, at } : undefined;
    } catch {
      return undefined;
    }
  },
};

const VISITS: Naming = {
  table: 'visits_stored',
  expression: '(toUnixTimestamp64Milli(occurred_at), stream, entry, place, profile_id)',
  rowsInQuery: VISITS_IN_QUERY,
  read(line) {
    const [, seconds, milliseconds, stream, entry, place, profileId] = VISIT.exec(line) ?? [];
    if (profileId === undefined) return undefined;
    const at = Number(`${seconds}${milliseconds}`);
    return { name: `(${at},${stream},${entry},${place},'${profileId}')`, at };
  },
};

/**
 * @param client with the database that holds `events_stored`
 * @param lines JSONEachRow, each line ended by \n
 * @returns false also where a line has no id or time that can be read
 * @throws ClickHouse's or the connection's error; the signal's reason when it aborts
 */
export function areStored(client: ClickHouseClient, lines: Buffer, signal: AbortSignal): Promise<boolean> {
  return areAllStored(client, EVENTS, lines, signal);
}

/** As `areStored`, of visits. @param lines as `insertVisits` takes them */
export function areVisitsStored(
  client: ClickHouseClient,
  lines: Buffer,
  signal: AbortSignal,
): Promise<boolean> {
  return areAllStored(client, VISITS, lines, signal);
}

async function areAllStored(
  client: ClickHouseClient,
  naming: Naming,
  lines: Buffer,
  signal: AbortSignal,
): Promise<boolean> {
  const { table, expression } = naming;
  for (const chunk of chunksOf(lines, naming)) {
    if (chunk === undefined) return false;
    signal.throwIfAborted(); // the client looks at it only once it has begun
    const { names, from, to } = chunk;
    const answer = await client.query({
      query: `SELECT toUInt32(uniqExact(${expression})) AS found FROM ${table}
        WHERE occurred_at BETWEEN fromUnixTimestamp64Milli(${from}) AND fromUnixTimestamp64Milli(${to})
        AND ${expression} IN (${[...names].join(',')})`,
      format: 'JSONEachRow',
      abort_signal: signal,
    });
    const [row] = await answer.json<{ found: number }>();
    if (row?.found !== names.size) return false;
  }
  return true;
}

/** Lines in their order, which is about that of their times; undefined for a chunk with a line that can't be read. */
function* chunksOf(lines: Buffer, { rowsInQuery, read }: Naming): Generator<Chunk | undefined> {
  for (let start = 0; start < lines.length; ) {
    const names = new Set<string>();
    let from = Number.POSITIVE_INFINITY;
    let to = Number.NEGATIVE_INFINITY;
    while (start < lines.length && names.size < rowsInQuery) {
      const end = lines.indexOf(NEWLINE, start) + 1 || lines.length;
      const row = read(lines.toString('utf8', start, end));
      if (row === undefined) return yield undefined;
      names.add(row.name);
      from = Math.min(from, row.at);
      to = Math.max(to, row.at);
      start = end;
    }
    yield { names, from, to };
  }
}

// Collects entries of a stream into a batch for ClickHouse. Lines of visits get a unique prefix: Redis's time, stream,
// entry, line number. A foreign entry becomes a dead letter: an error would block the stream for ever.

import { isUtf8 } from 'node:buffer';

/** Fields of a stream's entry, as lua/includes/stream.lua and lua/visits/countVisits.lua write them. */
const ENTRY = {
  rows: 'n',
  /** Rows, each with \n, as JSONEachRow for events or TabSeparated for visits. */
  lines: 'd',
  /** Rows of profile, product and device, each with \n. The flusher adds what makes a row unique. */
  visits: 'v',
  /** When the visits were counted, in milliseconds of the node's clock. */
  time: 't',
} as const;

export interface Batch {
  /** A view of the memory given to `collectBatch`. It is valid until another call gets the same memory. */
  readonly lines: Buffer;
  readonly rows: number;
  readonly entries: readonly Entry[];
  /** Each is JSON: the entry's id, and alternating names and values. */
  readonly foreignEntries: readonly string[];
  readonly isFull: boolean;
}

export interface Entry {
  readonly id: string;
  readonly rows: number;
  readonly bytes: number;
}

/** A batch ends with the page that reaches a bound. */
export interface Bounds {
  readonly rows: number;
  readonly bytes: number;
}

/** `fields` alternates names and values. */
export type StreamEntry = readonly [id: Buffer, fields: readonly Buffer[]];

/** Returns entries after an id, and fewer than `count` only at the end of the stream. */
export type NextPage = (count: number, after: string) => Promise<readonly StreamEntry[]>;

// Pages are small, because visits wait while Redis copies one, and a slow link must carry it in seconds. Redis counts
// entries, not bytes: a page has at most twice the entries of the page before, and PAGE_BYTES if its entries are no
// larger than that page's largest. An entry has up to 256 KiB.
const FIRST_PAGE = 8;
const LARGEST_PAGE = 128;
/** A batch may exceed its bound by a page. */
export const PAGE_BYTES = 1_000_000;
/** Bounds what a flusher touches again and again while ClickHouse is away. */
const MOST_ENTRIES = 5_000;

const NEWLINE = 0x0a;
/** ClickHouse's column `line` is a UInt16. */
const MOST_LINES = 65_536;
/** Numbers from here on are for entries of another millisecond: the upper half of the column `entry`, a UInt32. */
const OTHER_MILLISECOND = 2 ** 31;

/**
 * @param visits the stream's number if it has visits
 * @param memory reused, because allocation costs more CPU than reading
 */
export async function collectBatch(
  nextPage: NextPage,
  visits: number | undefined,
  bounds: Bounds,
  memory: Buffer = Buffer.allocUnsafeSlow(bounds.bytes + PAGE_BYTES),
): Promise<Batch | undefined> {
  const entries: Entry[] = [];
  const foreignEntries: string[] = [];
  let [rows, size] = [0, 0];
  let room = memory;
  for (let page = FIRST_PAGE; ; ) {
    const found = await nextPage(page, entries.at(-1)?.id ?? '0');
    let largest = 1;
    for (const [idBytes, fields] of found) {
      const id = idBytes.toString('latin1');
      const parsed = parse(id, fields, visits);
      if (parsed === undefined) foreignEntries.push(JSON.stringify({ id, fields: fields.map(legible) }));
      const { lines, ...entry } = parsed ?? { lines: Buffer.alloc(0), rows: 0, bytes: 0 };
      if (size + lines.length > room.length)
        room = Buffer.concat([room.subarray(0, size)], 2 * (size + lines.length));
      size += lines.copy(room, size);
      rows += entry.rows;
      entries.push({ id, ...entry });
      largest = Math.max(
        largest,
        fields.reduce((sum, { length }) => sum + length, 0),
      );
    }
    const isFull = rows >= bounds.rows || size >= bounds.bytes || entries.length >= MOST_ENTRIES;
    if (found.length < page || isFull) {
      const lines = room.subarray(0, size);
      return entries.length === 0 ? undefined : { lines, rows, entries, foreignEntries, isFull };
    }
    page = Math.max(1, Math.min(2 * page, LARGEST_PAGE, Math.floor(PAGE_BYTES / largest)));
  }
}

interface Parsed {
  readonly rows: number;
  /** Bytes without prefixes, as the stream's state counts them. */
  readonly bytes: number;
  readonly lines: Buffer;
}

function parse(id: string, fields: readonly Buffer[], visits: number | undefined): Parsed | undefined {
  const rows = Number(String(field(fields, ENTRY.rows)));
  // In a stream of visits, a retried dead letter's line already has its prefix.
  const whole = field(fields, ENTRY.lines);
  const lines = whole ?? (visits === undefined ? undefined : field(fields, ENTRY.visits));
  // Without a last newline two entries' lines would join.
  if (!Number.isInteger(rows) || rows < 1 || lines?.at(-1) !== NEWLINE) return undefined;
  if (whole !== undefined) return { rows, bytes: whole.length, lines: whole };
  const time = String(field(fields, ENTRY.time));
  const visitLines = lines.toString('latin1').split('\n');
  if (visitLines.length !== rows + 1 || rows > MOST_LINES || !/^\d{4,}$/.test(time)) return undefined;
  const prefix = `${time.slice(0, -3)}.${time.slice(-3)}\t${visits}\t${numberOf(id, time)}\t`;
  let text = '';
  for (let line = 0; line < rows; line++) text += `${prefix}${line}\t${visitLines[line]}\n`;
  return { rows, bytes: lines.length, lines: Buffer.from(text, 'latin1') };
}

/** @param fields alternates names and values */
export function field(fields: readonly Buffer[], name: string): Buffer | undefined {
  for (let i = 0; i + 1 < fields.length; i += 2)
    if (fields[i]?.toString('latin1') === name) return fields[i + 1];
  return undefined;
}

/**
 * Unique among the stream's entries of the same `time`. If the clock is set back, ids still ascend: an id with another
 * time gets a number of the upper half.
 */
function numberOf(id: string, time: string): number {
  const at = id.indexOf('-');
  const number = Number(id.slice(at + 1));
  return id.slice(0, at) === time ? number : OTHER_MILLISECOND + (number % OTHER_MILLISECOND);
}

function legible(bytes: Buffer): string | { readonly base64: string } {
  return isUtf8(bytes) ? bytes.toString() : { base64: bytes.toString('base64') };
}

// Collects entries of a stream into a batch for ClickHouse. Lines of visits get a unique prefix: Redis's time, stream,
// entry, line number. A foreign entry becomes a dead letter: an error would block the stream for ever.

import { isUtf8 } from 'node:buffer';
import { ENTRY } from '../events/stream.js';

export interface Batch {
  /** In the memory given to `collectBatch`; the next batch overwrites them. */
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

export interface Source {
  readonly stream: string;
  readonly visits?: number;
}

/** A batch ends with the page that reaches a bound. */
export interface Bounds {
  readonly rows: number;
  readonly bytes: number;
}

/** `fields` alternates names and values. */
export type StreamEntry = readonly [id: Buffer, fields: readonly Buffer[]];

/** Returns fewer entries than `count` only at the end of the stream. */
export type NextPage = (count: number) => Promise<readonly StreamEntry[]>;

// Small pages: visits wait while Redis copies one.
const FIRST_PAGE = 8;
const LARGEST_PAGE = 1_000;
/** Bytes to aim at for a page. A batch may exceed its bound by a page. */
export const PAGE_BYTES = 1_000_000;

const LINE_NUMBER_BYTES = 6;
const NEWLINE = 0x0a;
const TAB = 0x09;
const ZERO = 0x30;
/** `line` is a UInt16. */
const MOST_LINES = 65_536;
/** `entry` is a UInt32. */
const OTHER_MILLISECOND = 2 ** 31;
const EMPTY = Buffer.alloc(0);

/**
 * If a later page fails, the batch ends with the entries read so far.
 * @param memory reused, because allocation costs more CPU than reading
 * @throws the error of the first page
 */
export async function collectBatch(
  nextPage: NextPage,
  source: Source,
  bounds: Bounds,
  memory: Buffer = Buffer.allocUnsafeSlow(bounds.bytes + PAGE_BYTES),
): Promise<Batch | undefined> {
  const batch = new Collected(memory);
  for (let page = FIRST_PAGE; ; page = batch.nextPage(bounds)) {
    let entries: readonly StreamEntry[];
    try {
      entries = await nextPage(page);
    } catch (error) {
      if (batch.isEmpty) throw error;
      return batch.end(true);
    }
    for (const [id, fields] of entries) batch.take(parse(id.toString('latin1'), fields, source.visits));
    if (entries.length < page) return batch.end(false);
    if (batch.reaches(bounds)) return batch.end(true);
  }
}

interface Parsed {
  readonly id: string;
  readonly fields: readonly Buffer[];
  /** Rows that the entry claims to have, verified while copying. 0 for a foreign entry. */
  readonly rows: number;
  readonly lines: Buffer;
  readonly prefix?: string;
}

function parse(id: string, fields: readonly Buffer[], visits: number | undefined): Parsed {
  let rows = Number.NaN;
  let lines: Buffer | undefined;
  let time: string | undefined;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i]?.toString('latin1');
    if (name === ENTRY.rows) rows = Number(fields[i + 1]);
    else if (name === (visits === undefined ? ENTRY.lines : ENTRY.visits)) lines = fields[i + 1];
    else if (name === ENTRY.time) time = fields[i + 1]?.toString('latin1');
    // Lines of a retried dead letter already have their prefix.
    else if (name === ENTRY.lines) return whole(id, fields, rows, fields[i + 1]);
  }
  if (visits === undefined) return whole(id, fields, rows, lines);
  if (rows > MOST_LINES || time === undefined || !/^\d{4,}$/.test(time))
    return whole(id, fields, 0, undefined);
  const prefix = `${time.slice(0, -3)}.${time.slice(-3)}\t${visits}\t${numberOf(id, time)}\t`;
  return { ...whole(id, fields, rows, lines), prefix };
}

/** Requires a last newline: without it two entries' lines would join. */
function whole(id: string, fields: readonly Buffer[], rows: number, lines: Buffer | undefined): Parsed {
  const isOurs = Number.isInteger(rows) && rows > 0 && lines?.at(-1) === NEWLINE;
  return isOurs ? { id, fields, rows, lines } : { id, fields, rows: 0, lines: EMPTY };
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

class Collected {
  #memory: Buffer;
  readonly #entries: Entry[] = [];
  readonly #foreignEntries: string[] = [];
  #rows = 0;
  #bytes = 0;
  #size = 0;

  constructor(memory: Buffer) {
    this.#memory = memory;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  reaches(bounds: Bounds): boolean {
    return this.#rows >= bounds.rows || this.#size >= bounds.bytes;
  }

  nextPage(bounds: Bounds): number {
    const left = Math.min(
      (bounds.bytes - this.#size) / Math.max(this.#size, 1),
      (bounds.rows - this.#rows) / Math.max(this.#rows, 1),
      PAGE_BYTES / Math.max(this.#bytes, 1),
    );
    return Math.max(1, Math.min(LARGEST_PAGE, Math.ceil(left * this.#entries.length)));
  }

  take({ id, fields, rows, lines, prefix }: Parsed): void {
    this.#makeRoom(lines.length + (prefix === undefined ? 0 : rows * (prefix.length + LINE_NUMBER_BYTES)));
    const size =
      prefix === undefined ? lines.copy(this.#memory, this.#size) : this.#spread(rows, lines, prefix);
    if (size === 0) {
      this.#foreignEntries.push(JSON.stringify({ id, fields: fields.map(legible) }));
      this.#entries.push({ id, rows: 0, bytes: 0 });
      return;
    }
    this.#size += size;
    this.#rows += rows;
    this.#bytes += lines.length;
    this.#entries.push({ id, rows, bytes: lines.length });
  }

  /** Copies byte by byte: rows are short, and calls would cost more. @returns 0 unless `rows` is exact */
  #spread(rows: number, lines: Buffer, prefix: string): number {
    const memory = this.#memory;
    const before = Buffer.from(prefix, 'latin1');
    let at = this.#size;
    let from = 0;
    for (let line = 0; line < rows; line++) {
      if (from === lines.length) return 0;
      for (let i = 0; i < before.length; i++) memory[at++] = before[i] as number;
      at = writeDigits(memory, at, line);
      memory[at++] = TAB;
      let byte: number;
      do {
        byte = lines[from++] as number;
        memory[at++] = byte;
      } while (byte !== NEWLINE);
    }
    return from === lines.length ? at - this.#size : 0;
  }

  #makeRoom(bytes: number): void {
    if (this.#size + bytes <= this.#memory.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#size + bytes, 2 * this.#size));
    this.#memory.copy(larger, 0, 0, this.#size);
    this.#memory = larger;
  }

  end(isFull: boolean): Batch | undefined {
    if (this.isEmpty) return undefined;
    const lines = this.#memory.subarray(0, this.#size);
    return { lines, rows: this.#rows, entries: this.#entries, foreignEntries: this.#foreignEntries, isFull };
  }
}

function writeDigits(memory: Buffer, from: number, number: number): number {
  let digits = 1;
  for (let rest = number; rest >= 10; rest = Math.floor(rest / 10)) digits++;
  let rest = number;
  for (let at = from + digits - 1; at >= from; at--) {
    memory[at] = ZERO + (rest % 10);
    rest = Math.floor(rest / 10);
  }
  return from + digits;
}

// Reads batches from a stream: the cut of a new one, and the exact range of one that has a manifest.
// Lines of events stay the bytes that they are. Those of visits get what their entry says of them: the time at which
// Redis counted them, and which entry of which stream they are from, at which place.
//
// An entry that another program has put into the stream is no batch of events. It is part of the batch all the same,
// without rows or bytes (it was never counted), and leaves the stream with it, whole, as a dead letter: thrown at,
// it would hold up its stream for ever.

import { isUtf8 } from 'node:buffer';
import { INSERT_BYTES, INSERT_ROWS } from '../clickhouse/insert.js';
import { ENTRY } from '../events/stream.js';
import type { RedisClient } from '../redis/client.js';
import type { Manifest, Range } from './manifest.js';

export interface Batch extends Range {
  /** In the memory that `cutBatch` was given: the next batch that is read into it overwrites them. */
  readonly lines: Buffer;
  /** Entries that are not ours, as JSON: id, and names and values in turn. */
  readonly foreignEntries: readonly string[];
  /** It ended at a bound and not with the stream: there is more at once. */
  readonly full: boolean;
}

/** A stream, and its number where it is one of visits. */
export interface Source {
  readonly stream: string;
  readonly visits?: number;
}

export interface Bounds {
  readonly rows: number;
  readonly bytes: number;
}

const INSERT_BOUNDS: Bounds = { rows: INSERT_ROWS, bytes: INSERT_BYTES };

// Entries asked for at a time: few at first, then as many as would fill the batch if they are like the ones before,
// but no more than Redis copies in a moment: visits wait for it meanwhile.
const FIRST_PAGE = 64;
const LARGEST_PAGE = 1_000;
const PAGE_BYTES = 1_000_000;

interface StreamEntry {
  readonly id: string;
  /** Names and values in turn, as Redis has them. */
  readonly fields: readonly Buffer[];
  /** As the entry says: whether so many lines of visits are there is seen when they are copied. 0: it is not ours. */
  readonly rows: number;
  readonly lines: Buffer;
  /** What each line gets before it, and its place in the entry with that; after a time of its own where it begins with a tab. */
  readonly prefix?: string;
}

/** `<place>\t`, of up to 5 digits. */
const PLACE_BYTES = 6;

/** Bytes that an entry's rows take at most. */
function sizeOf({ rows, lines, prefix }: StreamEntry): number {
  return lines.length + (prefix === undefined ? 0 : rows * (prefix.length + PLACE_BYTES));
}

const NEWLINE = 0x0a;
const TAB = 0x09;
const ZERO = 0x30;
/** `place` is a UInt16. */
const MOST_PLACES = 65_536;
const EMPTY = Buffer.alloc(0);

/**
 * The next batch: entries up to the bounds, but always one.
 * @param after id of the last entry of the batch before, where that is still in the stream
 * @param memory what the lines are copied into; to a process that takes fresh memory for each batch, that and its garbage
 *   cost more than the reading does
 * @returns undefined where nothing waits
 */
export async function cutBatch(
  redis: RedisClient,
  source: string | Source,
  after?: string,
  bounds: Bounds = INSERT_BOUNDS,
  memory: Buffer = Buffer.allocUnsafeSlow(bounds.bytes),
): Promise<Batch | undefined> {
  const batch = new Collected(memory);
  let page = FIRST_PAGE;
  let last = after;
  for (;;) {
    const entries = await readEntries(redis, source, last === undefined ? '-' : `(${last}`, '+', page);
    for (const entry of entries) {
      const { rows, size } = batch;
      const over = rows + entry.rows > bounds.rows || size + sizeOf(entry) > bounds.bytes;
      if (over && batch.entries > 0) return batch.end(true);
      batch.take(entry);
    }
    if (entries.length < page) return batch.end(false);
    last = batch.last;
    const { rows, bytes, size } = batch;
    const left = Math.min(
      (bounds.bytes - size) / Math.max(size, 1),
      (bounds.rows - rows) / Math.max(rows, 1),
    );
    const fill = Math.min(left, PAGE_BYTES / Math.max(bytes, 1)) * batch.entries;
    page = Math.max(1, Math.min(LARGEST_PAGE, Math.ceil(fill)));
  }
}

/** The entries of a manifest, as they were when it was written. */
export async function readBatch(
  redis: RedisClient,
  source: string | Source,
  manifest: Manifest,
): Promise<Batch | undefined> {
  const batch = new Collected(Buffer.allocUnsafeSlow(manifest.bytes));
  let from = manifest.first;
  for (;;) {
    const entries = await readEntries(redis, source, from, manifest.last, LARGEST_PAGE);
    for (const entry of entries) batch.take(entry);
    if (entries.length < LARGEST_PAGE) return batch.end(true);
    from = `(${batch.last}`;
  }
}

async function readEntries(
  redis: RedisClient,
  source: string | Source,
  from: string,
  to: string,
  count: number,
): Promise<StreamEntry[]> {
  const { stream, visits }: Source = typeof source === 'string' ? { stream: source } : source;
  const reply = await redis.xrangeBuffer(stream, from, to, 'COUNT', count);
  return reply.map(([id, fields]) => entryOf(id.toString('latin1'), fields, visits));
}

/** @param visits number of the stream, where it is one of visits */
function entryOf(id: string, fields: readonly Buffer[], visits: number | undefined): StreamEntry {
  let rows = Number.NaN;
  let lines: Buffer | undefined;
  let prefix: string | undefined;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i]?.toString('latin1');
    if (name === ENTRY.rows) rows = Number(fields[i + 1]);
    else if (name === ENTRY.lines) lines = fields[i + 1];
    else if ((name === ENTRY.visits || name === ENTRY.lateVisits) && visits !== undefined) {
      lines = fields[i + 1];
      prefix = `${name === ENTRY.visits ? secondsOf(id) : ''}\t${visits}\t${id.slice(id.indexOf('-') + 1)}\t`;
    }
  }
  // Without its last newline a line would run into the next entry's.
  if (Number.isInteger(rows) && rows > 0 && lines?.at(-1) === NEWLINE) {
    if (prefix === undefined) return { id, fields, rows, lines };
    if (rows <= MOST_PLACES) return { id, fields, rows, lines, prefix };
  }
  return { id, fields, rows: 0, lines: EMPTY };
}

/** @param id of an entry: `<milliseconds>-<number>` */
function secondsOf(id: string): string {
  const milliseconds = id.slice(0, id.indexOf('-')).padStart(4, '0');
  return `${milliseconds.slice(0, -3)}.${milliseconds.slice(-3)}`;
}

/** Text as it is; other bytes in base64. */
function legible(bytes: Buffer): string | { readonly base64: string } {
  return isUtf8(bytes) ? bytes.toString() : { base64: bytes.toString('base64') };
}

/** A batch while it is read. */
class Collected {
  #memory: Buffer;
  readonly #foreignEntries: string[] = [];
  #first = '';
  last = '';
  entries = 0;
  rows = 0;
  /** Of lines, as they are in the stream. */
  bytes = 0;
  /** Of lines, as they are inserted. */
  size = 0;

  constructor(memory: Buffer) {
    this.#memory = memory;
  }

  take(entry: StreamEntry): void {
    const { id, fields, rows, lines, prefix } = entry;
    if (this.entries++ === 0) this.#first = id;
    this.last = id;
    this.#makeRoom(sizeOf(entry));
    const size =
      prefix === undefined ? lines.copy(this.#memory, this.size) : this.#spread(rows, lines, prefix);
    if (size === 0) {
      this.#foreignEntries.push(JSON.stringify({ id, fields: fields.map(legible) }));
      return;
    }
    this.size += size;
    this.rows += rows;
    this.bytes += lines.length;
  }

  /**
   * Byte by byte: rows are short, and a call for each part of one would cost more.
   * @returns bytes written; 0 where there are not so many rows
   */
  #spread(rows: number, lines: Buffer, prefix: string): number {
    const memory = this.#memory;
    const before = Buffer.from(prefix, 'latin1');
    let at = this.size;
    let from = 0;
    for (let place = 0; place < rows; place++) {
      if (from === lines.length) return 0;
      if (before[0] === TAB) {
        while (from < lines.length && lines[from] !== TAB) memory[at++] = lines[from++] as number;
        if (from++ === lines.length) return 0;
      }
      for (let i = 0; i < before.length; i++) memory[at++] = before[i] as number;
      at = writeDigits(memory, at, place);
      memory[at++] = TAB;
      let byte: number;
      do {
        byte = lines[from++] as number;
        memory[at++] = byte;
      } while (byte !== NEWLINE);
    }
    return from === lines.length ? at - this.size : 0;
  }

  /** For an entry that is over the bounds on its own, or a range that has more in it than its manifest says. */
  #makeRoom(bytes: number): void {
    if (this.size + bytes <= this.#memory.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.size + bytes, 2 * this.size));
    this.#memory.copy(larger, 0, 0, this.size);
    this.#memory = larger;
  }

  /** Undefined where nothing was taken. */
  end(full: boolean): Batch | undefined {
    if (this.entries === 0) return undefined;
    const { last, rows, bytes } = this;
    const lines = this.#memory.subarray(0, this.size);
    return { first: this.#first, last, rows, bytes, lines, foreignEntries: this.#foreignEntries, full };
  }
}

/** @returns where it ends */
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

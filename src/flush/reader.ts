// Reads batches from a shard's stream: the cut of a new one, and the exact range of one that has a manifest.
// Lines stay the bytes that they are.
//
// An entry that somebody else has put into the stream is no batch of events. It is part of the batch all the same,
// without rows or bytes (nobody has counted it), and leaves the stream with it, whole, as a dead letter: thrown at,
// it would hold up its shard for ever.

import { isUtf8 } from 'node:buffer';
import { INSERT_BYTES, INSERT_ROWS } from '../clickhouse/insert.js';
import { ENTRY } from '../events/stream.js';
import type { RedisClient } from '../redis/client.js';
import type { Manifest, Range } from './manifest.js';

export interface Batch extends Range {
  /** In the memory that `cutBatch` was given: the next batch that is read into it overwrites them. */
  readonly lines: Buffer;
  /** Entries that are not ours, as JSON: id, and names and values in turn. */
  readonly strangers: readonly string[];
  /** It ended at a bound and not with the stream: there is more at once. */
  readonly full: boolean;
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

interface Entry {
  readonly id: string;
  readonly rows: number;
  readonly lines: Buffer;
  readonly stranger?: string;
}

const NEWLINE = 0x0a;
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
  stream: string,
  after?: string,
  bounds: Bounds = INSERT_BOUNDS,
  memory: Buffer = Buffer.allocUnsafeSlow(bounds.bytes),
): Promise<Batch | undefined> {
  const batch = new Collected(memory);
  let page = FIRST_PAGE;
  let last = after;
  for (;;) {
    const entries = await readEntries(redis, stream, last === undefined ? '-' : `(${last}`, '+', page);
    for (const entry of entries) {
      const { rows, bytes } = batch;
      const over = rows + entry.rows > bounds.rows || bytes + entry.lines.length > bounds.bytes;
      if (over && batch.entries > 0) return batch.end(true);
      batch.take(entry);
    }
    if (entries.length < page) return batch.end(false);
    last = batch.last;
    const { rows, bytes } = batch;
    const left = Math.min(
      (bounds.bytes - bytes) / Math.max(bytes, 1),
      (bounds.rows - rows) / Math.max(rows, 1),
    );
    const fill = Math.min(left, PAGE_BYTES / Math.max(bytes, 1)) * batch.entries;
    page = Math.max(1, Math.min(LARGEST_PAGE, Math.ceil(fill)));
  }
}

/** The entries of a manifest, as they were when it was written. */
export async function readBatch(
  redis: RedisClient,
  stream: string,
  manifest: Manifest,
): Promise<Batch | undefined> {
  const batch = new Collected(Buffer.allocUnsafeSlow(manifest.bytes));
  let from = manifest.first;
  for (;;) {
    const entries = await readEntries(redis, stream, from, manifest.last, LARGEST_PAGE);
    for (const entry of entries) batch.take(entry);
    if (entries.length < LARGEST_PAGE) return batch.end(true);
    from = `(${batch.last}`;
  }
}

async function readEntries(
  redis: RedisClient,
  stream: string,
  from: string,
  to: string,
  count: number,
): Promise<Entry[]> {
  const reply = await redis.xrangeBuffer(stream, from, to, 'COUNT', count);
  return reply.map(([id, fields]) => entryOf(id.toString('latin1'), fields));
}

function entryOf(id: string, fields: readonly Buffer[]): Entry {
  let rows = Number.NaN;
  let lines: Buffer | undefined;
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const name = fields[i]?.toString('latin1');
    if (name === ENTRY.rows) rows = Number(fields[i + 1]);
    else if (name === ENTRY.lines) lines = fields[i + 1];
  }
  // Without its last newline a line would run into the next entry's.
  if (Number.isInteger(rows) && rows > 0 && lines?.at(-1) === NEWLINE) return { id, rows, lines };
  return { id, rows: 0, lines: EMPTY, stranger: JSON.stringify({ id, fields: fields.map(legible) }) };
}

/** Text as it is; other bytes in base64. */
function legible(bytes: Buffer): string | { readonly base64: string } {
  return isUtf8(bytes) ? bytes.toString() : { base64: bytes.toString('base64') };
}

/** A batch while it is read. */
class Collected {
  #memory: Buffer;
  readonly #strangers: string[] = [];
  #first = '';
  last = '';
  entries = 0;
  rows = 0;
  bytes = 0;

  constructor(memory: Buffer) {
    this.#memory = memory;
  }

  take({ id, rows, lines, stranger }: Entry): void {
    if (this.entries++ === 0) this.#first = id;
    this.last = id;
    this.#makeRoom(lines.length);
    lines.copy(this.#memory, this.bytes);
    this.rows += rows;
    this.bytes += lines.length;
    if (stranger !== undefined) this.#strangers.push(stranger);
  }

  /** For an entry that is over the bounds on its own, or a range that has more in it than its manifest says. */
  #makeRoom(bytes: number): void {
    if (this.bytes + bytes <= this.#memory.length) return;
    const larger = Buffer.allocUnsafeSlow(this.bytes + bytes);
    this.#memory.copy(larger, 0, 0, this.bytes);
    this.#memory = larger;
  }

  /** Undefined where nothing was taken. */
  end(full: boolean): Batch | undefined {
    if (this.entries === 0) return undefined;
    const { last, rows, bytes } = this;
    const lines = this.#memory.subarray(0, bytes);
    return { first: this.#first, last, rows, bytes, lines, strangers: this.#strangers, full };
  }
}

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
 * @returns undefined where nothing waits
 */
export async function cutBatch(
  redis: RedisClient,
  stream: string,
  after?: string,
  bounds: Bounds = INSERT_BOUNDS,
): Promise<Batch | undefined> {
  const taken: Entry[] = [];
  let rows = 0;
  let bytes = 0;
  let page = FIRST_PAGE;
  let last = after;
  for (;;) {
    const entries = await readEntries(redis, stream, last === undefined ? '-' : `(${last}`, '+', page);
    for (const entry of entries) {
      const over = rows + entry.rows > bounds.rows || bytes + entry.lines.length > bounds.bytes;
      if (over && taken.length > 0) return batchOf(taken, true);
      taken.push(entry);
      rows += entry.rows;
      bytes += entry.lines.length;
    }
    if (entries.length < page) return taken.length === 0 ? undefined : batchOf(taken, false);
    last = entries.at(-1)?.id;
    const left = Math.min(
      (bounds.bytes - bytes) / Math.max(bytes, 1),
      (bounds.rows - rows) / Math.max(rows, 1),
    );
    const fill = Math.min(left, PAGE_BYTES / Math.max(bytes, 1)) * taken.length;
    page = Math.max(1, Math.min(LARGEST_PAGE, Math.ceil(fill)));
  }
}

/** The entries of a manifest, as they were when it was written. */
export async function readBatch(
  redis: RedisClient,
  stream: string,
  manifest: Manifest,
): Promise<Batch | undefined> {
  const taken: Entry[] = [];
  let from = manifest.first;
  for (;;) {
    const entries = await readEntries(redis, stream, from, manifest.last, LARGEST_PAGE);
    taken.push(...entries);
    if (entries.length < LARGEST_PAGE) return taken.length === 0 ? undefined : batchOf(taken, true);
    from = `(${entries.at(-1)?.id}`;
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

function batchOf(entries: readonly Entry[], full: boolean): Batch {
  const lines = Buffer.concat(entries.map((entry) => entry.lines));
  return {
    first: entries[0]?.id ?? '',
    last: entries.at(-1)?.id ?? '',
    rows: entries.reduce((sum, entry) => sum + entry.rows, 0),
    bytes: lines.length,
    lines,
    strangers: entries.flatMap(({ stranger }) => stranger ?? []),
    full,
  };
}

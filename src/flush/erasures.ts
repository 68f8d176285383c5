// What was erased, and whose rows may still wait in streams or dead letters, or be in ClickHouse.
//
// An erasure says "up to now" (lua/erasures.lua). A line is older if its time is: that was taken before the line was sent,
// so it does not matter when the line comes. A line in the future is covered as well: a clock was ahead when it was made. What waits is left out when its batch is inserted. What is in ClickHouse, or
// on its way, is deleted by src/flush/row-eraser.ts, and only then is an erasure forgotten: so a batch that was sent before,
// and is sent again without these lines, brings nothing back.

import {
  type ErasedUntil,
  isErasedRow,
  type OwnedRow,
  type Until,
  untilOf,
} from '../clickhouse/erased-rows.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';

export interface Erasure {
  /** As it is held; what is held may have become another since. */
  readonly held: string;
  readonly until: Until;
}

const PAGE = 1_000;
const NEWLINE = 0x0a;

/** By profile id, identity name, or EVERY_PROFILE. @throws Redis's errors */
export async function readErasures(redis: RedisClient, keys: Keys): Promise<Map<string, Erasure>> {
  const erasures = new Map<string, Erasure>();
  if ((await redis.hlen(keys.erasures)) === 0) return erasures;
  let cursor = '0';
  do {
    const [next, fields] = await redis.hscan(keys.erasures, cursor, 'COUNT', PAGE);
    cursor = next;
    for (let i = 0; i < fields.length; i += 2) {
      const held = fields[i + 1] as string;
      erasures.set(fields[i] as string, { held, until: untilOf(held) });
    }
  } while (cursor !== '0');
  return erasures;
}

/**
 * Whether a line is of a visitor who was erased after it was made, alone or with all of the shop. One that can't be
 * read is not.
 * @param line an event (JSONEachRow), or a visit (TabSeparated: seconds, stream, entry, place, profile, …)
 */
export function isErased(line: string, erasures: ErasedUntil): boolean {
  if (!line.startsWith('{')) {
    const [seconds, , , , profile_id] = line.split('\t', 5);
    return isErasedRow({ profile_id }, Math.round(Number(seconds) * 1_000), 'redis', erasures);
  }
  try {
    const row = JSON.parse(line) as OwnedRow & { readonly occurred_at?: unknown };
    return isErasedRow(row, Number(row.occurred_at), 'server', erasures);
  } catch {
    return false;
  }
}

/** The lines without those that are erased; the same bytes where none is. */
export function withoutErased(lines: Buffer, erasures: ReadonlyMap<string, Erasure>): Buffer {
  if (erasures.size === 0) return lines;
  const kept: Buffer[] = [];
  let from = 0;
  for (let start = 0; start < lines.length; ) {
    const end = lines.indexOf(NEWLINE, start) + 1 || lines.length;
    if (isErased(lines.toString('utf8', start, end), erasures)) {
      kept.push(lines.subarray(from, start));
      from = end;
    }
    start = end;
  }
  return from === 0 ? lines : Buffer.concat([...kept, lines.subarray(from)]);
}

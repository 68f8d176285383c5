// Erasures whose rows may still be in streams, dead letters or ClickHouse. row-eraser.ts deletes the rows in ClickHouse
// before it forgets the erasure, so a batch inserted again brings nothing back.

import { setTimeout as sleep } from 'node:timers/promises';
import { type Erasures, isErasedRow, type OwnedRow } from '../clickhouse/erased-rows.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import type { Store } from '../redis/store.js';

const PAGE = 1_000;
const PATIENCE_MS = 1_000;
const NEWLINE = 0x0a;

export async function readErasures(redis: RedisClient, keys: Keys): Promise<Erasures> {
  const erasures = new Map<string, string>();
  for await (const fields of redis.hscanStream(keys.erasures, { count: PAGE }))
    for (let i = 0; i < fields.length; i += 2) erasures.set(fields[i], fields[i + 1]);
  return erasures;
}

export type ErasuresReader = () => Promise<Erasures>;

/**
 * Concurrent batches share one read. If Redis doesn't answer soon, a batch uses the erasures read before. Rows of newer
 * erasures then reach ClickHouse, where row-eraser.ts deletes them.
 */
export function erasuresReader(redis: RedisClient, keys: Keys): ErasuresReader {
  let known: Erasures = new Map();
  let reading: Promise<unknown> | undefined;
  return async () => {
    reading ??= readErasures(redis, keys)
      .then((found) => {
        known = found;
      })
      .catch(() => {})
      .finally(() => {
        reading = undefined;
      });
    await Promise.race([reading, sleep(PATIENCE_MS, undefined, { ref: false })]);
    return known;
  };
}

/** @param names profile ids, identity names, EVERY_PROFILE */
export async function findErasures(store: Store, names: readonly string[]): Promise<Erasures> {
  const found = new Map<string, string>();
  for (let i = 0; i < names.length; i += PAGE) {
    const page = names.slice(i, i + PAGE);
    const all = await store.call((client) => client.hmget(store.keys.erasures, ...page));
    for (const [at, erasure] of all.entries()) if (erasure !== null) found.set(page[at] as string, erasure);
  }
  return found;
}

/** @param line an event (JSONEachRow), or a visit (TabSeparated: seconds, stream, entry, line number, profile, …) */
export function isErased(line: string, erasures: Erasures): boolean {
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

export function withoutErased(lines: Buffer, erasures: Erasures): Buffer {
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

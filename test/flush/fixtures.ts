// What the flusher's tests share: events as lines, and appending them with the real script.

import { v7 as uuid } from 'uuid';
import type { EventRow } from '../../src/events/stream.js';
import type { RedisClient } from '../../src/redis/client.js';
import type { Keys } from '../../src/redis/keys.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';

const APPEND = loadScript('append');
let sequence = 0;

/** An `add` event unless told otherwise. */
export function eventRow(changes: Partial<EventRow> = {}): EventRow {
  return {
    event_id: uuid(),
    type: 'add',
    occurred_at: new Date().toISOString(),
    profile_id: '7.test',
    customer_id: null,
    session_id: 'session',
    origin: 'event',
    payload: {},
    ...changes,
  };
}

export const lineOf = (row: EventRow): string => `${JSON.stringify(row)}\n`;

/** Appends lines as one entry, as `serve` does. */
export async function appendLines(
  redis: RedisClient,
  keys: Keys,
  shard: number,
  lines: readonly string[],
): Promise<void> {
  const touched = [keys.lane(`e${shard}`, 'test'), keys.events(shard), keys.eventsState(shard)];
  const reply = await runScript(redis, APPEND, touched, [
    ++sequence,
    1e15,
    60,
    1e12,
    lines.length,
    lines.join(''),
  ]);
  if (reply !== 1) throw new Error(`append answered ${reply}`);
}

/** Appends events as entries of up to `perEntry`. */
export async function appendEvents(
  redis: RedisClient,
  keys: Keys,
  shard: number,
  rows: readonly EventRow[],
  perEntry = 10,
): Promise<void> {
  for (let i = 0; i < rows.length; i += perEntry) {
    await appendLines(redis, keys, shard, rows.slice(i, i + perEntry).map(lineOf));
  }
}

/** The pending figures beside the stream. */
export async function pendingOf(
  redis: RedisClient,
  keys: Keys,
  shard: number,
): Promise<{ events: number; bytes: number }> {
  const [events, bytes] = await redis.hmget(keys.eventsState(shard), 'events', 'bytes');
  return { events: Number(events ?? 0), bytes: Number(bytes ?? 0) };
}

/** Resolves when `holds` does. @throws after `ms`. */
export async function until(
  what: string,
  holds: () => Promise<boolean> | boolean,
  ms = 20_000,
): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// What the flusher's tests share: events as lines, and appending them with the real script.

import type { ClickHouseClient } from '@clickhouse/client';
import { v7 as uuid } from 'uuid';
import { type Batch, type Bounds, collectBatch } from '../../src/flush/reader.js';
import { eraseWaiting } from '../../src/flush/row-eraser.js';
import type { RedisClient } from '../../src/redis/client.js';
import { type Keys, type StreamKeys, tagOf } from '../../src/redis/keys.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';

export { until } from '../harness/until.js';

/** A line as an object: the columns of `events` in ClickHouse. What is left out takes the column's default. */
export interface EventRow {
  /** UUID, version 7. */
  readonly event_id: string;
  readonly type: string;
  /** ISO 8601 in UTC with milliseconds. */
  readonly occurred_at: string;
  readonly profile_id: string;
  readonly customer_id: string | null;
  readonly session_id: string | null;
  readonly device?: string;
  readonly locale?: string;
  readonly origin: 'event' | 'item' | 'share' | 'purchase';
  readonly product_id?: string;
  readonly variant_id?: string;
  readonly product_handle?: string;
  readonly source?: string;
  readonly channel?: string;
  readonly share_code?: string;
  readonly quantity?: number | null;
  /** Decimal text, up to 16 digits before the point and 2 after it. */
  readonly price?: string | null;
  readonly compare_at?: string | null;
  /** The payload as JSON: a text, or the object itself, which ClickHouse keeps as the text it reads. */
  readonly payload?: string | object;
}

const APPEND = loadScript('events/appendEvents');
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

/** A statement of an order's line, with the fields of its payload that are not as usual. */
export function orderRow(stated: Readonly<Record<string, unknown>>, changes: object = {}) {
  const { occurred_at: at, ...row } = { ...eventRow({ session_id: null }), ...changes } as EventRow;
  const payload = {
    ...{
      occurredAt: at,
      updatedAt: at,
      orderId: 'o1',
      line: 'l1',
      version: 1,
      productId: '1',
      variantId: '',
    },
    ...{ quantity: 1, price: '10.00', discount: '0.00', amount: '10.00', currency: 'EUR', test: false },
    ...stated,
  };
  const order = { type: 'purchase', origin: 'order', order_id: payload.orderId } as const;
  return { ...row, ...order, occurred_at: at, payload };
}

export const eventRows = (n: number, changes: Partial<EventRow> = {}): EventRow[] =>
  Array.from({ length: n }, () => eventRow(changes));

export const lineOf = (row: EventRow): string => `${JSON.stringify(row)}\n`;

/** Appends lines as one entry, as `serve` does. */
export async function appendLines(
  redis: RedisClient,
  keys: Keys,
  stream: number,
  lines: readonly string[],
): Promise<void> {
  const touched = [
    keys.senderChannel(tagOf(keys.events(stream)), 'test'),
    keys.events(stream),
    keys.eventsState(stream),
  ];
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
  stream: number,
  rows: readonly EventRow[],
  perEntry = 10,
): Promise<void> {
  for (let i = 0; i < rows.length; i += perEntry) {
    await appendLines(redis, keys, stream, rows.slice(i, i + perEntry).map(lineOf));
  }
}

/** The batch that a flusher would read, which stays unread. */
export function peekBatch(
  redis: RedisClient,
  source: { readonly stream: string; readonly visits?: number },
  bounds: Bounds = { rows: 100_000, bytes: 48_000_000 },
  memory?: Buffer,
): Promise<Batch | undefined> {
  const page = (count: number, after: string) =>
    redis.xrangeBuffer(source.stream, `(${after}`, '+', 'COUNT', count);
  return collectBatch(page, source.visits, bounds, memory);
}

/** The pending figures beside the stream. */
export async function pendingOf(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
): Promise<{ events: number; bytes: number }> {
  const [events, bytes] = await redis.hmget(keys.eventsState(stream), 'events', 'bytes');
  return { events: Number(events ?? 0), bytes: Number(bytes ?? 0) };
}

/** Names streams, as nodes of a cluster do: numbers from 0 on. */
export async function nameStreams(redis: RedisClient, keys: Keys, count: number): Promise<void> {
  await redis.hset(keys.meta, 'of', 'a test');
  for (let number = 1; number < count; number++) await redis.hset(keys.meta, `marker:${number}`, '1');
}

/** Erases what waits as a flusher of one stream does. @returns how many erasures it has done @throws what a part failed with */
export async function eraseAsFlusher(
  redis: RedisClient,
  keys: Keys,
  clickhouse: ClickHouseClient,
): Promise<number> {
  return (await eraseWaiting({ redis, keys, clickhouse }, 0)).length;
}

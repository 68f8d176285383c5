// Helpers for tests of the flusher: events as lines, appended by the real script.

import type { ClickHouseClient } from '@clickhouse/client';
import { v7 as uuid } from 'uuid';
import { type Batch, type Bounds, collectBatch } from '../../src/flush/reader.js';
import { RowEraser } from '../../src/flush/row-eraser.js';
import type { RedisClient } from '../../src/redis/client.js';
import { type Keys, type StreamKeys, tagOf } from '../../src/redis/keys.js';
import { loadScript, runScript } from '../../src/redis/scripts.js';

export { until } from '../harness/until.js';

const APPEND = loadScript('events/appendEvents');
let sequence = 0;

export function eventRow(changes: object = {}) {
  const occurred_at = new Date().toISOString();
  return {
    event_id: uuid(),
    type: 'add',
    occurred_at,
    profile_id: '7.test',
    origin: 'event',
    customer_id: null,
    session_id: 'session',
    payload: {},
    ...changes,
  };
}
export type EventRow = ReturnType<typeof eventRow>;

export function orderRow(stated: Readonly<Record<string, unknown>>, changes: object = {}) {
  const { occurred_at: at, ...row } = eventRow({ session_id: null, ...changes });
  const payload = {
    occurredAt: at,
    updatedAt: at,
    orderId: 'o1',
    line: 'l1',
    version: 1,
    productId: '1',
    variantId: '',
    quantity: 1,
    price: '10.00',
    discount: '0.00',
    amount: '10.00',
    currency: 'EUR',
    test: false,
    ...stated,
  };
  const order = { type: 'purchase', origin: 'order', order_id: payload.orderId } as const;
  return { ...row, ...order, occurred_at: at, payload };
}

export const eventRows = (n: number, changes: object = {}): EventRow[] =>
  Array.from({ length: n }, () => eventRow(changes));

export const lineOf = (row: object): string => `${JSON.stringify(row)}\n`;

export async function appendLines(redis: RedisClient, keys: Keys, stream: number, lines: readonly string[]) {
  const [events, state] = [keys.events(stream), keys.eventsState(stream)];
  const touched = [keys.senderChannel(tagOf(events), 'test'), events, state];
  const args = [++sequence, 1e15, 60, 1e12, lines.length, lines.join('')];
  const reply = await runScript(redis, APPEND, touched, args);
  if (reply !== 1) throw new Error(`append answered ${reply}`);
}

export async function appendEvents(
  redis: RedisClient,
  keys: Keys,
  stream: number,
  rows: readonly EventRow[],
  perEntry = 10,
): Promise<void> {
  for (let i = 0; i < rows.length; i += perEntry)
    await appendLines(redis, keys, stream, rows.slice(i, i + perEntry).map(lineOf));
}

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

export async function pendingOf(redis: RedisClient, keys: StreamKeys, stream: number) {
  const [events, bytes] = await redis.hmget(keys.eventsState(stream), 'events', 'bytes');
  return { events: Number(events ?? 0), bytes: Number(bytes ?? 0) };
}

export async function nameStreams(redis: RedisClient, keys: Keys, count: number): Promise<void> {
  await redis.hset(keys.meta, 'of', 'a test');
  for (let number = 1; number < count; number++) await redis.hset(keys.meta, `marker:${number}`, '1');
}

/** Completes pending erasures, as a flusher does in two runs. @returns their number @throws the error of a part */
export async function eraseAsFlusher(redis: RedisClient, keys: Keys, clickhouse: ClickHouseClient) {
  const eraser = new RowEraser({ redis, keys, clickhouse, inFlightMs: 0, lateMs: 0 });
  await eraser.run();
  return (await eraser.run()).length;
}

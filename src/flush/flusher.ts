// Moves events and visits from Redis to ClickHouse, one loop per stream. Several flushers may run without coordination.

import { setMaxListeners } from 'node:events';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { type Backoff, pause } from '../backoff.js';
import {
  INSERT_BYTES,
  INSERT_ROWS,
  INSERT_VISITS,
  insertEvents,
  insertVisits,
} from '../clickhouse/insert.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import { erasuresReader } from './erasures.js';
import { StreamGroup } from './group.js';
import { flushMetrics } from './metrics.js';
import { type EndSignals, flushStream, type HandedOver, type OnOutage, retry } from './stream-flusher.js';

const POLL_MS = 500;
const CLOSE_MS = 10_000;
const NO_LOG: OnOutage = () => () => {};
/** Smallest bound of a batch, however many streams share INSERT_BYTES. A stream holds two batches in memory. */
const LEAST_BATCH_BYTES = 4_000_000;

export interface FlusherSpec {
  /** Its timeout must allow a page of a batch. */
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly clickhouse: ClickHouseClient;
  /** Milliseconds an event waits at most under low load. */
  readonly intervalMs: number;
  readonly log: Logger;
  readonly onOutage?: OnOutage;
  readonly metrics?: Registry;
  readonly abandonedMs?: number | undefined;
  readonly backoff?: Backoff | undefined;
  readonly handOver?: ((...batch: HandedOver) => Promise<void>) | undefined;
}

export interface Flusher {
  /** Unfinished entries stay pending for another flusher. */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: errors are logged and retried until `close`. */
export function startFlusher(spec: FlusherSpec): Flusher {
  const drain = new AbortController();
  const abort = new AbortController();
  // Each loop listens to the signals, and Node would warn from the eleventh listener on.
  setMaxListeners(0, drain.signal, abort.signal);
  const running = run(spec, { drain: drain.signal, abort: abort.signal });
  return {
    async close(deadlineMs = CLOSE_MS) {
      drain.abort();
      const deadline = setTimeout(() => abort.abort(), deadlineMs);
      await running;
      clearTimeout(deadline);
    },
  };
}

async function run(spec: FlusherSpec, signals: EndSignals): Promise<void> {
  const { redis, keys, backoff, onOutage = NO_LOG } = spec;
  const { drain } = signals;
  const start = streamStarter(spec, signals);
  const loops = new Map<number, Promise<unknown>>();
  while (!drain.aborted) {
    const find = () => streamsOf(redis, keys);
    const numbers = await retry({ onOutage, backoff }, find, drain).catch(() => []);
    for (const number of numbers) if (!loops.has(number)) loops.set(number, start(number, numbers.length));
    await pause(POLL_MS, drain);
  }
  await Promise.all(loops.values());
}

function streamStarter(spec: FlusherSpec, signals: EndSignals) {
  const {
    redis,
    keys,
    clickhouse,
    metrics = new Registry(),
    abandonedMs,
    handOver,
    onOutage = NO_LOG,
  } = spec;
  const erasures = erasuresReader(redis, keys);
  const kinds = [
    {
      label: 'stream',
      keys,
      isOfVisits: false,
      rows: INSERT_ROWS,
      insert: insertEvents,
      handOver,
      metrics: flushMetrics(metrics, 'wishmeter_flush', 'Events'),
    },
    {
      label: 'visits',
      keys: keys.visits,
      isOfVisits: true,
      rows: INSERT_VISITS,
      insert: insertVisits,
      metrics: flushMetrics(metrics, 'wishmeter_visit_flush', 'Visits'),
      handOver: undefined,
    },
  ];
  return (number: number, streamCount: number) => {
    const bytes = Math.max(Math.floor(INSERT_BYTES / streamCount), LEAST_BATCH_BYTES);
    const loops = kinds.map(({ label, keys, isOfVisits, rows, insert, handOver, metrics }) => {
      const bounds = { rows, bytes };
      const stream = {
        ...spec,
        erasures,
        metrics,
        onOutage,
        log: spec.log.child({ [label]: number }),
        group: new StreamGroup({ redis, keys, number, isOfVisits, bounds, abandonedMs }),
        insert: (lines: Buffer, signal: AbortSignal) => insert(clickhouse, lines, signal),
        handOver,
      };
      return flushStream(stream, signals);
    });
    return Promise.all(loops);
  };
}

// Brings events and visits from Redis to ClickHouse: one loop per stream, of either kind (stream-flusher.ts). Flushers need
// to know nothing of each other. `close` brings what waits by then to ClickHouse.

import { setMaxListeners } from 'node:events';
import type { ClickHouseClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import { backoffMs, pause } from '../backoff.js';
import { streamsOf } from '../redis/marks.js';
import { flushStream, type StreamFlusherSpec } from './stream-flusher.js';
import { eventStreams, visitStreams } from './streams.js';

/** How often new streams are looked for. */
const POLL_MS = 500;
/** How long `close` lets an insert in flight take. */
const CLOSE_MS = 10_000;

export interface FlusherSpec extends StreamFlusherSpec {
  /** With the database that holds the events; see createClickHouse. */
  readonly clickhouse: ClickHouseClient;
  readonly metrics?: Registry;
}

export interface Flusher {
  /** Takes at most `deadlineMs`. What is not done by then stays pending for another flusher. */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: what fails is logged and tried again until `close`. */
export function startFlusher(spec: FlusherSpec): Flusher {
  const stop = new AbortController();
  const halt = new AbortController();
  // Each loop waits for them: Node would warn from the eleventh on.
  setMaxListeners(0, stop.signal, halt.signal);
  const running = run(spec, { stop: stop.signal, halt: halt.signal });
  return {
    async close(deadlineMs = CLOSE_MS) {
      stop.abort();
      const deadline = setTimeout(() => halt.abort(), deadlineMs);
      await running;
      clearTimeout(deadline);
    },
  };
}

async function run(spec: FlusherSpec, signals: { stop: AbortSignal; halt: AbortSignal }): Promise<void> {
  const { redis, keys, clickhouse, metrics = new Registry(), log, backoff } = spec;
  const { stop } = signals;
  const kinds = [eventStreams(keys, clickhouse, metrics), visitStreams(keys.visits, clickhouse, metrics)];
  const loops = new Map<number, Promise<unknown>>();
  for (let failures = 0; !stop.aborted; ) {
    try {
      const numbers = await streamsOf(redis, keys);
      failures = 0;
      for (const number of numbers)
        if (!loops.has(number))
          loops.set(
            number,
            Promise.all(kinds.map((kind) => flushStream(spec, kind, number, numbers.length, signals))),
          );
    } catch (error) {
      failures++;
      log.warn({ err: error, failures }, 'Redis did not name its streams');
    }
    await pause(failures > 0 ? backoffMs(failures, backoff) : POLL_MS, stop);
  }
  await Promise.all(loops.values());
}

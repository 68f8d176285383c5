// Moves events and visits from Redis to ClickHouse, one loop per stream. Several flushers may run without coordination.

import { setMaxListeners } from 'node:events';
import type { ClickHouseClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import { backoffMs, pause } from '../backoff.js';
import { streamsOf } from '../redis/node-markers.js';
import { flushStream, type Signals, type StreamFlusherSpec } from './stream-flusher.js';
import { eventStreams, visitStreams } from './streams.js';

const POLL_MS = 500;
const CLOSE_MS = 10_000;

export interface FlusherSpec extends StreamFlusherSpec {
  readonly clickhouse: ClickHouseClient;
  readonly metrics?: Registry;
}

export interface Flusher {
  /** Unfinished entries stay pending for another flusher. */
  close(deadlineMs?: number): Promise<void>;
}

/** Never throws: errors are logged and retried until `close`. */
export function startFlusher(spec: FlusherSpec): Flusher {
  const stop = new AbortController();
  const abort = new AbortController();
  // Each loop listens to the signals, and Node would warn from the eleventh listener on.
  setMaxListeners(0, stop.signal, abort.signal);
  const running = run(spec, { drain: stop.signal, abort: abort.signal });
  return {
    async close(deadlineMs = CLOSE_MS) {
      stop.abort();
      const deadline = setTimeout(() => abort.abort(), deadlineMs);
      await running;
      clearTimeout(deadline);
    },
  };
}

async function run(spec: FlusherSpec, signals: Signals): Promise<void> {
  const { redis, keys, clickhouse, metrics = new Registry(), log, backoff } = spec;
  const { drain } = signals;
  const kinds = [eventStreams(keys, clickhouse, metrics), visitStreams(keys.visits, clickhouse, metrics)];
  const loops = new Map<number, Promise<unknown>>();
  for (let failures = 0; !drain.aborted; ) {
    try {
      const numbers = await streamsOf(redis, keys);
      failures = 0;
      for (const number of numbers)
        if (!loops.has(number))
          loops.set(
            number,
            Promise.all(
              kinds.map((streams) =>
                flushStream(spec, { streams, number, streamCount: numbers.length }, signals),
              ),
            ),
          );
    } catch (error) {
      failures++;
      log.warn({ err: error, failures }, 'Redis did not name its streams');
    }
    await pause(failures > 0 ? backoffMs(failures, backoff) : POLL_MS, drain);
  }
  await Promise.all(loops.values());
}

// Brings events and visits from Redis to ClickHouse: one state machine per stream, of either kind (stream-flusher.ts).
// Several flushers share the streams evenly (sharing.ts). `close` brings what waits by then to ClickHouse.

import type { ClickHouseClient } from '@clickhouse/client';
import { Registry } from 'prom-client';
import { type Sharer, SILENT_MS, share } from './sharing.js';
import { flushStream, type StreamFlusherSpec } from './stream-flusher.js';
import { eventStreams, visitStreams } from './streams.js';

export interface FlusherSpec extends Omit<StreamFlusherSpec, 'silentMs' | 'streamCount'> {
  /** With the database that holds the events; see createClickHouse. */
  readonly clickhouse: ClickHouseClient;
  readonly metrics?: Registry;
  /** Milliseconds without a heartbeat after which an owner counts as gone. */
  readonly silentMs?: number;
}

export type Flusher = Pick<Sharer, 'close'>;

/** Never throws: what fails is logged and tried again until `close`. */
export function startFlusher(spec: FlusherSpec): Flusher {
  const { keys, clickhouse, metrics = new Registry(), silentMs = SILENT_MS } = spec;
  const events = eventStreams(keys, clickhouse, metrics);
  const visits = visitStreams(keys.visits, clickhouse, metrics);
  const streamSpec = { ...spec, silentMs, streamCount: () => sharer.size / 2 };
  const sharer = share({
    ...{ ...spec, silentMs, team: keys.flushers },
    open: (stream, signals, wake) => ({
      events: flushStream(streamSpec, events, stream, signals, wake),
      visits: flushStream(streamSpec, visits, stream, signals, wake),
    }),
  });
  return sharer;
}

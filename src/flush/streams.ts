// The two kinds of streams: events and visits.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Registry } from 'prom-client';
import { INSERT_ROWS, INSERT_VISITS, insertEvents, insertVisits } from '../clickhouse/insert.js';
import type { StreamKeys } from '../redis/keys.js';
import { FlushMetrics } from './metrics.js';
import type { Source } from './reader.js';

export type Kind = 'events' | 'visits';

export interface Streams {
  readonly kind: Kind;
  readonly keys: StreamKeys;
  readonly insert: (lines: Buffer, signal: AbortSignal) => Promise<void>;
  readonly rows: number;
  readonly metrics: FlushMetrics;
  source(number: number): Source;
}

export function eventStreams(keys: StreamKeys, clickhouse: ClickHouseClient, registry: Registry): Streams {
  return {
    kind: 'events',
    keys,
    insert: (lines, signal) => insertEvents(clickhouse, lines, signal),
    rows: INSERT_ROWS,
    metrics: new FlushMetrics(registry),
    source: (stream) => ({ stream: keys.events(stream) }),
  };
}

export function visitStreams(keys: StreamKeys, clickhouse: ClickHouseClient, registry: Registry): Streams {
  return {
    kind: 'visits',
    keys,
    insert: (lines, signal) => insertVisits(clickhouse, lines, signal),
    rows: INSERT_VISITS,
    metrics: new FlushMetrics(registry, { prefix: 'wishmeter_visit_flush', rows: 'visits' }),
    source: (visits) => ({ stream: keys.events(visits), visits }),
  };
}

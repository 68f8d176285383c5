// The two kinds of streams that are brought to ClickHouse: of events, and of visits.

import type { ClickHouseClient } from '@clickhouse/client';
import type { Registry } from 'prom-client';
import { INSERT_ROWS, INSERT_VISITS, insertEvents, insertVisits } from '../clickhouse/insert.js';
import { areStored, areVisitsStored } from '../clickhouse/stored.js';
import type { StreamKeys } from '../redis/keys.js';
import type { Table } from './delivery.js';
import { FlushMetrics } from './metrics.js';
import type { Source } from './reader.js';

/** What streams hold. */
export type Kind = 'events' | 'visits';

/** Streams of one kind. */
export interface Streams {
  readonly kind: Kind;
  readonly keys: StreamKeys;
  readonly table: Table;
  /** Rows of one insert. */
  readonly rows: number;
  readonly metrics: FlushMetrics;
  source(number: number): Source;
}

export function eventStreams(keys: StreamKeys, clickhouse: ClickHouseClient, registry: Registry): Streams {
  return {
    kind: 'events',
    keys,
    table: {
      insert: (lines, token, signal) => insertEvents(clickhouse, lines, token, signal),
      holds: (lines, signal) => areStored(clickhouse, lines, signal),
    },
    rows: INSERT_ROWS,
    metrics: new FlushMetrics(registry),
    source: (stream) => ({ stream: keys.events(stream) }),
  };
}

export function visitStreams(keys: StreamKeys, clickhouse: ClickHouseClient, registry: Registry): Streams {
  return {
    kind: 'visits',
    keys,
    table: {
      insert: (lines, token, signal) => insertVisits(clickhouse, lines, token, signal),
      holds: (lines, signal) => areVisitsStored(clickhouse, lines, signal),
    },
    rows: INSERT_VISITS,
    metrics: new FlushMetrics(registry, { prefix: 'wishmeter_visit_flush', rows: 'visits' }),
    source: (visits) => ({ stream: keys.events(visits), visits }),
  };
}

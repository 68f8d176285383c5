// Prometheus metrics of this flusher. `serve` reports the backlog.

import { Counter, type Registry } from 'prom-client';

export type FlushMetrics = ReturnType<typeof flushMetrics>;

export function flushMetrics(registry: Registry, prefix: string, rows: 'Events' | 'Visits') {
  const registers = [registry];
  const counter = (name: string, help: string) => new Counter({ name: `${prefix}_${name}`, help, registers });
  const lower = rows.toLowerCase();
  return {
    rows: counter('rows_total', `${rows} brought into ClickHouse`),
    batches: counter('batches_total', `Batches of ${lower} finished`),
    refused: counter('refused_total', `${rows} that became dead letters`),
    insertErrors: new Counter({
      name: `${prefix}_insert_errors_total`,
      registers,
      labelNames: ['blame'] as const,
      help: `Failed inserts of ${lower}, by cause: data or server`,
    }),
  };
}

export function erasureMetrics(registry: Registry) {
  const registers = [registry];
  return {
    erased: new Counter({
      name: 'wishmeter_flush_erasures_total',
      registers,
      help: 'Profiles whose rows were erased from ClickHouse',
    }),
    failures: new Counter({
      name: 'wishmeter_flush_erasure_failures_total',
      registers,
      help: "Failed erasures from ClickHouse, dead letters and extras' copies of rows; they are retried",
    }),
  };
}

// Prometheus metrics of this flusher. `serve` reports the backlog.

import { Counter, type Registry } from 'prom-client';
import type { Blame } from '../clickhouse/blame.js';

export interface MetricNames {
  readonly prefix: string;
  readonly rows: string;
}

const OF_EVENTS: MetricNames = { prefix: 'wishmeter_flush', rows: 'events' };

export class FlushMetrics {
  readonly #rows: Counter;
  readonly #batches: Counter;
  readonly #errors: Counter<'blame'>;
  readonly #dead: Counter;

  constructor(registry: Registry, { prefix, rows }: MetricNames = OF_EVENTS) {
    const Rows = rows.charAt(0).toUpperCase() + rows.slice(1);
    const registers = [registry];
    const counter = (name: string, help: string) =>
      new Counter({ name: `${prefix}_${name}`, help, registers });
    this.#rows = counter('rows_total', `${Rows} brought into ClickHouse`);
    this.#batches = counter('batches_total', `Batches of ${rows} finished`);
    this.#dead = counter('refused_total', `${Rows} that became dead letters`);
    this.#errors = new Counter({
      name: `${prefix}_insert_errors_total`,
      help: `Failed inserts of ${rows}, by cause: data or server`,
      registers,
      labelNames: ['blame'] as const,
    });
  }

  finished(rows: number, refused: number): void {
    this.#batches.inc();
    this.#rows.inc(rows - refused);
    this.#dead.inc(refused);
  }

  insertFailed(blame: Blame): void {
    this.#errors.inc({ blame });
  }
}

export function flushErasures(registry: Registry): { onErased(profiles: number): void; onFailed(): void } {
  const erasures = new Counter({
    name: 'wishmeter_flush_erasures_total',
    help: 'Profiles whose rows were erased from ClickHouse',
    registers: [registry],
  });
  const failures = new Counter({
    name: 'wishmeter_flush_erasure_failures_total',
    help: 'Failed steps of erasures from ClickHouse, dead letters and deliveries; they are retried',
    registers: [registry],
  });
  return { onErased: (profiles) => erasures.inc(profiles), onFailed: () => failures.inc() };
}

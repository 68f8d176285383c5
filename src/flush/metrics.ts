// The flusher's figures for Prometheus. Gauges of a shard are there only while this process owns it, so that
// several flushers together show each shard once.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { Blame } from '../clickhouse/blame.js';
import type { Pending } from './shard.js';

/** How the figures of a kind of streams are called. */
export interface FigureNames {
  readonly prefix: string;
  readonly rows: string;
  readonly row: string;
}

const OF_EVENTS: FigureNames = { prefix: 'wishmeter_flush', rows: 'events', row: 'event' };

export class FlushMetrics {
  readonly #rows: Counter;
  readonly #batches: Counter;
  readonly #errors: Counter<'blame'>;
  readonly #dead: Counter;
  readonly #claims: Counter;
  readonly #shard: Readonly<Record<'events' | 'bytes' | 'age' | 'dead' | 'epoch', Gauge<'shard'>>>;

  constructor(registry: Registry, { prefix, rows, row }: FigureNames = OF_EVENTS) {
    const Rows = rows.charAt(0).toUpperCase() + rows.slice(1);
    const registers = [registry];
    const counter = (name: string, help: string) =>
      new Counter({ name: `${prefix}_${name}`, help, registers });
    const gauge = (name: string, help: string) =>
      new Gauge({ name: `${prefix}_${name}`, help, registers, labelNames: ['shard'] as const });
    this.#rows = counter('rows_total', `${Rows} brought into ClickHouse`);
    this.#batches = counter('batches_total', 'Batches finished');
    this.#dead = counter('refused_total', `${Rows} that became dead letters`);
    this.#claims = counter('claims_total', 'Times that this process became the owner of a shard');
    this.#errors = new Counter({
      name: `${prefix}_insert_errors_total`,
      help: 'Inserts that failed, by what is to blame: data, server or unknown',
      registers,
      labelNames: ['blame'] as const,
    });
    this.#shard = {
      events: gauge(`pending_${rows}`, `${Rows} waiting in Redis`),
      bytes: gauge('pending_bytes', `Bytes of ${rows} waiting in Redis`),
      age: gauge('oldest_pending_seconds', `Age of the oldest ${row} waiting in Redis`),
      dead: gauge('dead_letters', 'Dead letters kept in Redis'),
      epoch: gauge('epoch', 'Fencing epoch under which this process owns the shard'),
    };
  }

  claimed(shard: number, epoch: string): void {
    this.#claims.inc();
    this.#shard.epoch.set({ shard }, Number(epoch));
  }

  pending(shard: number, { events, bytes, ageMs, deadLetters }: Pending): void {
    this.#shard.events.set({ shard }, events);
    this.#shard.bytes.set({ shard }, bytes);
    this.#shard.age.set({ shard }, ageMs / 1000);
    this.#shard.dead.set({ shard }, deadLetters);
  }

  finished(rows: number, refused: number): void {
    this.#batches.inc();
    this.#rows.inc(rows - refused);
    this.#dead.inc(refused);
  }

  insertFailed(blame: Blame): void {
    this.#errors.inc({ blame });
  }

  lost(shard: number): void {
    for (const gauge of Object.values(this.#shard)) gauge.remove({ shard });
  }
}

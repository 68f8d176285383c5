// Metrics of receivers, which each scrape reads from Redis.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { Receivers } from './receivers.js';

const labelNames = ['receiver'] as const;

export class ReceiverMetrics {
  readonly #receivers: Receivers;
  readonly #stats: Readonly<Record<'enabled' | 'pending' | 'bytes' | 'late', Gauge<'receiver'>>>;
  readonly #counts: Readonly<Record<'delivered' | 'failures' | 'dead', Counter<'receiver'>>>;

  constructor(registry: Registry, receivers: Receivers, highWater: number) {
    this.#receivers = receivers;
    const registers = [registry];
    const gauge = (name: string, help: string) =>
      new Gauge({ name: `wishmeter_receiver_${name}`, help, registers, labelNames });
    const counter = (name: string, help: string) =>
      new Counter({ name: `wishmeter_receiver_${name}`, help, registers, labelNames });
    this.#stats = {
      enabled: gauge('enabled', '1 if enabled, 0 if paused or disabled'),
      pending: gauge('pending_deliveries', 'Pending deliveries'),
      bytes: gauge('pending_bytes', 'Bytes of pending deliveries, at all streams'),
      late: gauge('oldest_due_seconds', 'How long the oldest delivery has been due; absent while disabled'),
    };
    this.#counts = {
      delivered: counter('deliveries_total', 'Accepted deliveries'),
      failures: counter('failures_total', 'Failed attempts to deliver'),
      dead: counter(
        'dead_letters_total',
        'Deliveries that became dead letters: failed for too long, or too many pending',
      ),
    };
    new Gauge({
      name: 'wishmeter_receiver_high_water_bytes',
      help: 'RECEIVERS_HIGH_WATER: pending bytes at a stream beyond which the oldest become dead letters',
      registers,
    }).set(highWater);
  }

  /** Shows no stale values if Redis fails. */
  async refresh(): Promise<void> {
    const all = await this.#read().catch(() => []);
    for (const one of [...Object.values(this.#stats), ...Object.values(this.#counts)]) one.reset();
    for (const { id: receiver, isEnabled, status } of all) {
      const { enabled, pending, bytes, late } = this.#stats;
      enabled.set({ receiver }, isEnabled ? 1 : 0);
      pending.set({ receiver }, status.pending);
      bytes.set({ receiver }, status.bytes);
      if (isEnabled) late.set({ receiver }, status.lateMs / 1_000);
      const { delivered, failures, dead } = this.#counts;
      delivered.inc({ receiver }, status.delivered);
      failures.inc({ receiver }, status.failures);
      dead.inc({ receiver }, status.dead);
    }
  }

  async #read() {
    const all = await this.#receivers.list();
    return Promise.all(all.map(async (one) => ({ ...one, status: await this.#receivers.statusOf(one.id) })));
  }
}

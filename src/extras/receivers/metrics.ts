// Metrics of receivers, which each scrape reads from Redis.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { Receivers } from './receivers.js';

/** @returns a function that reads the values and shows them; if Redis fails, it shows none */
export function receiverMetrics(
  registry: Registry,
  receivers: Receivers,
  highWater: number,
): () => Promise<void> {
  const named = (name: string, help: string) => ({
    ...{ name: `wishmeter_receiver_${name}`, help, registers: [registry], labelNames: ['receiver'] as const },
  });
  const enabled = new Gauge(named('enabled', '1 if enabled, 0 if paused or disabled'));
  const pending = new Gauge(named('pending_deliveries', 'Pending deliveries'));
  const bytes = new Gauge(named('pending_bytes', 'Bytes of pending deliveries'));
  const late = new Gauge(
    named('oldest_due_seconds', 'How long the oldest delivery has been due; absent while disabled'),
  );
  const delivered = new Counter(named('deliveries_total', 'Accepted deliveries'));
  const failures = new Counter(named('failures_total', 'Failed attempts to deliver'));
  const dead = new Counter(
    named(
      'dead_letters_total',
      'Deliveries that became dead letters: failed for too long, or too many pending',
    ),
  );
  new Gauge({
    name: 'wishmeter_receiver_high_water_bytes',
    help: 'RECEIVERS_HIGH_WATER: pending bytes beyond which the oldest become dead letters',
    registers: [registry],
  }).set(highWater);
  const read = async () => {
    const all = await receivers.list();
    return Promise.all(all.map(async (one) => ({ ...one, status: await receivers.statusOf(one.id) })));
  };
  return async () => {
    const all = await read().catch(() => []);
    for (const one of [enabled, pending, bytes, late, delivered, failures, dead]) one.reset();
    for (const { id: receiver, isEnabled, status } of all) {
      enabled.set({ receiver }, isEnabled ? 1 : 0);
      pending.set({ receiver }, status.pending);
      bytes.set({ receiver }, status.bytes);
      if (isEnabled) late.set({ receiver }, status.lateMs / 1_000);
      delivered.inc({ receiver }, status.delivered);
      failures.inc({ receiver }, status.failures);
      dead.inc({ receiver }, status.dead);
    }
  };
}

// Metrics of receivers, read at each scrape. If Redis fails, none are shown.

import { Counter, Gauge, type Registry } from 'prom-client';
import type { QueueStatus } from './queue.js';
import type { Receiver } from './receiver.js';
import type { Receivers } from './receivers.js';

const DEAD = 'Deliveries that became dead letters: failed for too long, or too many pending';
const LATE = 'How long the oldest delivery has been due; absent while disabled';

type Value = (status: QueueStatus, receiver: Receiver) => number | undefined;
const METRICS: readonly [name: string, type: typeof Gauge | typeof Counter, help: string, value: Value][] = [
  ['enabled', Gauge, '1 if enabled, 0 if paused or disabled', (_, { isEnabled }) => Number(isEnabled)],
  ['pending_deliveries', Gauge, 'Pending deliveries', ({ pending }) => pending],
  ['pending_bytes', Gauge, 'Bytes of pending deliveries', ({ bytes }) => bytes],
  ['oldest_due_seconds', Gauge, LATE, ({ lateMs }, one) => (one.isEnabled ? lateMs / 1_000 : undefined)],
  ['deliveries_total', Counter, 'Accepted deliveries', ({ delivered }) => delivered],
  ['failures_total', Counter, 'Failed attempts to deliver', ({ failures }) => failures],
  ['dead_letters_total', Counter, DEAD, ({ dead }) => dead],
];

export function receiverMetrics(
  registry: Registry,
  receivers: Receivers,
  highWater: number,
): () => Promise<void> {
  const registers = [registry];
  const help = 'RECEIVERS_HIGH_WATER: pending bytes beyond which the oldest become dead letters';
  new Gauge({ name: 'wishmeter_receiver_high_water_bytes', help, registers }).set(highWater);
  const metrics = METRICS.map(([name, Metric, help, value]) => {
    const labelNames = ['receiver'];
    return { value, metric: new Metric({ name: `wishmeter_receiver_${name}`, help, registers, labelNames }) };
  });
  const read = async (receiver: Receiver) => ({ receiver, status: await receivers.statusOf(receiver.id) });
  return async () => {
    const all = await receivers.list().then(
      (list) => Promise.all(list.map(read)),
      () => [],
    );
    for (const { metric, value } of metrics) {
      metric.reset();
      for (const { receiver, status } of all) {
        const shown = value(status, receiver);
        if (shown !== undefined) metric.inc({ receiver: receiver.id }, shown);
      }
    }
  };
}

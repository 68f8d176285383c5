// Metrics of open compliance requests, read at each scrape. If Redis fails, none are shown.

import { Gauge, type Registry } from 'prom-client';
import { COMPLIANCE_KINDS, type Compliance } from './compliance.js';

export function complianceMetrics(registry: Registry, compliance: Compliance): () => Promise<void> {
  const gauge = (name: string, help: string) =>
    new Gauge({ name, help, registers: [registry], labelNames: ['kind'] as const });
  const open = gauge('wishmeter_requests_open', 'Open requests of compliance webhooks');
  const oldest = gauge(
    'wishmeter_requests_oldest_seconds',
    'Age of the oldest open request of compliance webhooks; 0 without any',
  );
  return async () => {
    const list = await compliance.list().catch(() => undefined);
    open.reset();
    oldest.reset();
    if (list === undefined) return;
    for (const kind of COMPLIANCE_KINDS) {
      const times = list.flatMap(({ request }) => (request.kind === kind ? [request.at] : []));
      open.set({ kind }, times.length);
      oldest.set(
        { kind },
        (Date.now() - times.reduce((least, at) => Math.min(least, at), Date.now())) / 1000,
      );
    }
  };
}

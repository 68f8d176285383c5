// Metrics of open compliance requests, read at each scrape. If Redis fails, none are shown.

import { Gauge, type Registry } from 'prom-client';
import { COMPLIANCE_KINDS, type Compliance, isUnconfirmed } from './compliance.js';

export function complianceMetrics(registry: Registry, compliance: Compliance): () => Promise<void> {
  const gauge = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge<Label>({ name, help, registers: [registry], labelNames });
  const open = gauge('wishmeter_requests_open', 'Open requests of compliance webhooks', 'kind');
  const oldest = gauge(
    'wishmeter_requests_oldest_seconds',
    "Age of the oldest open request of compliance webhooks, a shop's erasure since its confirmation; 0 without any",
    'kind',
  );
  const unconfirmed = gauge(
    'wishmeter_requests_unconfirmed_seconds',
    'Age of the oldest `shop/redact` that waits for `wishmeter requests confirm`; 0 without any',
  );
  return async () => {
    const list = await compliance.list().catch(() => undefined);
    open.reset();
    oldest.reset();
    unconfirmed.remove();
    if (list === undefined) return;
    const requests = list.map(({ request }) => request);
    for (const kind of COMPLIANCE_KINDS) {
      const ofKind = requests.filter((request) => request.kind === kind);
      open.set({ kind }, ofKind.length);
      const due = ofKind.filter((request) => !isUnconfirmed(request));
      oldest.set({ kind }, oldestSeconds(due.map(({ at, confirmedAt = at }) => confirmedAt)));
    }
    unconfirmed.set(oldestSeconds(requests.filter(isUnconfirmed).map(({ at }) => at)));
  };
}

function oldestSeconds(times: readonly number[]): number {
  const now = Date.now();
  return (now - times.reduce((least, at) => Math.min(least, at), now)) / 1000;
}

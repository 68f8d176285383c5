// Metrics of open compliance requests, which each scrape reads from Redis.

import { Gauge, type Registry } from 'prom-client';
import { COMPLIANCE_KINDS, type Compliance } from './compliance.js';

export class ComplianceMetrics {
  readonly #compliance: Compliance;
  readonly #open: Gauge<'kind'>;
  readonly #oldest: Gauge<'kind'>;

  constructor(registry: Registry, compliance: Compliance) {
    this.#compliance = compliance;
    const gauge = (name: string, help: string) =>
      new Gauge({ name, help, registers: [registry], labelNames: ['kind'] as const });
    this.#open = gauge('wishmeter_requests_open', 'Open requests of compliance webhooks');
    this.#oldest = gauge(
      'wishmeter_requests_oldest_seconds',
      'Age of the oldest open request of compliance webhooks; 0 without any',
    );
  }

  /** Shows no stale values if Redis fails. */
  async refresh(): Promise<void> {
    const list = await this.#compliance.list().catch(() => undefined);
    this.#open.reset();
    this.#oldest.reset();
    if (list === undefined) return;
    for (const kind of COMPLIANCE_KINDS) {
      const of = list.filter(({ request }) => request.kind === kind);
      this.#open.set({ kind }, of.length);
      const oldest = of.reduce((least, { request }) => Math.min(least, request.at), Date.now());
      this.#oldest.set({ kind }, (Date.now() - oldest) / 1000);
    }
  }
}

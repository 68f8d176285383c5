// Metrics of products whose alerts are being sent, read at each scrape.

import { Gauge, type Registry } from 'prom-client';
import type { Products } from './products.js';

export class ProductMetrics {
  readonly #products: Products | undefined;
  readonly #open: Gauge;
  readonly #oldest: Gauge;

  /** @param products undefined if product alerts are off */
  constructor(registry: Registry, products: Products | undefined) {
    this.#products = products;
    const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });
    this.#open = gauge('wishmeter_products_open', 'Changed products whose alerts are not all sent yet');
    this.#oldest = gauge(
      'wishmeter_products_oldest_open_seconds',
      'For how long this process has seen the oldest open product, by scans of about 1,000 every 30 s; 0 if there is none',
    );
  }

  /** Shows nothing if Redis does not answer, instead of old values. */
  async refresh(): Promise<void> {
    const none = { products: 0, oldestMs: 0 };
    const open = this.#products === undefined ? none : await this.#products.open().catch(() => undefined);
    if (open === undefined) {
      this.#open.remove();
      this.#oldest.remove();
    } else {
      this.#open.set(open.products);
      this.#oldest.set(open.oldestMs / 1000);
    }
  }
}

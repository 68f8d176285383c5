// Products whose wishers are being told, in `serve`'s figures, read when Prometheus asks.

import { Gauge, type Registry } from 'prom-client';
import type { Products } from '../products/products.js';

export class ProductMetrics {
  readonly #products: Products | undefined;
  readonly #open: Gauge;
  readonly #oldest: Gauge;

  /** @param products undefined where product alerts are off */
  constructor(registry: Registry, products: Products | undefined) {
    this.#products = products;
    const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });
    this.#open = gauge('wishmeter_products_open', 'Products whose wishers are not all told of a change yet');
    this.#oldest = gauge(
      'wishmeter_products_oldest_open_seconds',
      'For how long the process that answers has seen the oldest open product: it looks every 30 s, at about 1,000; 0 where there is none',
    );
  }

  /** Where Redis does not answer, nothing is shown rather than what was. */
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

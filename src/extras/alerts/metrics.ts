// Metrics of product alerts, read at each scrape. If Redis fails, none are shown.

import { Counter, Gauge, type Registry } from 'prom-client';
import { counterBy } from '../../metrics/counter-by.js';
import { ALERT_TYPES, type AlertType } from './alert.js';
import type { Products } from './products.js';
import { PRODUCT_LEFT_OUT } from './routes.js';

export function productMetrics(registry: Registry, products: Products | undefined): () => Promise<void> {
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });
  const count = gauge('wishmeter_products_open', 'Changed products with alerts yet to send');
  const oldest = gauge(
    'wishmeter_products_oldest_open_seconds',
    'How long this process has seen the oldest open product, by scans of about 1,000 every 30 s; 0 without any',
  );
  return async () => {
    const none = { products: 0, oldestMs: 0 };
    const open = products === undefined ? none : await products.open().catch(() => undefined);
    if (open === undefined) {
      count.remove();
      oldest.remove();
    } else {
      count.set(open.products);
      oldest.set(open.oldestMs / 1000);
    }
  };
}

export function alertCounter(registry: Registry): (type: AlertType) => void {
  return counterBy(registry, {
    name: 'wishmeter_alerts_total',
    help: 'Alerts to subscribers of changed products: price drops (`priceDrop`) and restocks (`backInStock`)',
    label: 'type',
    values: ALERT_TYPES,
  });
}

export function webhookCounters(registry: Registry) {
  const leftOut = counterBy(registry, {
    name: 'wishmeter_products_left_out_total',
    help: 'Product webhooks answered 200 and ignored: another topic, or no product',
    label: 'reason',
    values: PRODUCT_LEFT_OUT,
  });
  const ofFuture = new Counter({
    name: 'wishmeter_products_of_future_total',
    help: 'Product webhooks with an `updated_at` in the future: replaced by the time of arrival',
    registers: [registry],
  });
  return { leftOut, ofFuture: () => ofFuture.inc() };
}

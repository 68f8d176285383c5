// Plugs product alerts into `serve`, if PRODUCT_ALERTS is on.

import type { Core, Extra } from '../../app/extra.js';
import type { AlertsConfig } from '../settings.js';
import { ALERT_TYPES } from './alert.js';
import { SUBSCRIBERS_TAG } from './keys.js';
import { alertCounter, productMetrics, webhookCounters } from './metrics.js';
import { encodeProduct } from './product-row.js';
import { Products, type ProductsSpec } from './products.js';
import { productLeftOut, productOperations } from './routes.js';
import { stampFormat } from './stamps.js';
import { openSubscribers, type Subscribers } from './subscribers.js';

/** Milliseconds between the scans of the journal. */
interface AlertsTiming {
  readonly scanMs?: number;
}

export const alertsWith =
  (timing: AlertsTiming): Extra<AlertsConfig> =>
  (host) => {
    const subscribers = openSubscribers(host);
    return {
      itemIndex: subscribers,
      visitorTags: [SUBSCRIBERS_TAG],
      plug(core) {
        const { log, requests, recorded, webhooks } = core;
        const counters = webhookCounters(core.registry);
        for (const type of ALERT_TYPES) recorded(type, 0);
        const reported = { onFuture: counters.ofFuture, onAlert: alertCounter(core.registry) };
        const products = subscribers && openProducts(core, subscribers, { ...reported, ...timing });
        return {
          operations: productOperations(products, requests, webhooks, productLeftOut(counters.leftOut, log)),
          tags: { Products: 'Current prices and stock' },
          metrics: (registry) => productMetrics(registry, products),
        };
      },
    };
  };

export const alerts = alertsWith({});

function openProducts(
  core: Core,
  subscribers: Subscribers,
  given: Pick<ProductsSpec, 'onFuture' | 'onAlert' | 'scanMs'>,
): Products {
  const { config, store, identity, appends, recorded, batchObserver, failuresOf, onClose } = core;
  const stamps = store.batcher(
    stampFormat(store, config.STREAM_HIGH_WATER, recorded),
    batchObserver('stampItems'),
  );
  onClose(() => stamps.close());
  const shopCurrency = config.SHOP_CURRENCY || null;
  const products = new Products({
    store,
    stamps,
    subscribers,
    shopCurrency,
    ...given,
    presentOf: (profileId) => identity.locator.presentOf(profileId),
    // A product has no profile, so its row goes to the stream of the first bucket.
    record: (product, version) =>
      appends.run({ profileId: '0.', line: encodeProduct(product, version, shopCurrency) }),
    onError: failuresOf('product'),
  });
  onClose(products.watch());
  return products;
}

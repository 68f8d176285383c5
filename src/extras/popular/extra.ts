// Plugs `GET /popular` into `serve`, if POPULAR is on: how many visitors saved a product.

import type { Extra } from '../../app/extra.js';
import { FollowingClient } from '../../clickhouse/following-client.js';
import type { PopularConfig } from '../settings.js';
import { STOREFRONT_TAG } from '../storefront-tag.js';
import { failureCounter, showAge } from './metrics.js';
import { type Looks, Popular, USUAL_LOOKS } from './popular.js';
import { popularOperation } from './routes.js';

export const popularWith =
  (looks: Looks): Extra<PopularConfig> =>
  ({ config, log, registry, clickhouseUrl, onClose }) => ({
    plug() {
      if (config.POPULAR === 'off') return {};
      const clickhouse = new FollowingClient(clickhouseUrl, config.CLICKHOUSE_DATABASE);
      onClose(() => clickhouse.close());
      const popular = new Popular({
        clickhouse,
        looks,
        log,
        onFailed: failureCounter(registry),
        counting: { from: config.POPULAR_FROM, days: config.GUEST_RETENTION_DAYS },
      });
      showAge(registry, () => popular.ageS);
      onClose(popular.watch());
      return { operations: [popularOperation(popular)], tags: STOREFRONT_TAG };
    },
  });

export const popular = popularWith(USUAL_LOOKS);

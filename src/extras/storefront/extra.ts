// Plugs the storefront's scripts and the share page into `serve`.

import type { Extra } from '../../app/extra.js';
import { imageRuleOf } from '../../app/image-rule.js';
import type { StorefrontConfig } from '../settings.js';
import { productUrlOf } from '../shop-links.js';
import { STOREFRONT_TAG } from '../storefront-tag.js';
import { storefrontScripts } from './script-routes.js';
import { sharePageOperation } from './share-page/routes.js';

export const storefront: Extra<StorefrontConfig> = ({ config }) => ({
  plug({ wishlist, opens }) {
    const sharePage = sharePageOperation({
      shares: wishlist.shares,
      items: wishlist.items,
      opens,
      pageUrl: config.SHARE_PAGE_URL,
      shop: {
        ...imageRuleOf(config),
        name: config.SHOP_NAME,
        productUrl: productUrlOf(config),
      },
    });
    return {
      operations: [sharePage, ...storefrontScripts(config.SCRIPT_NAME)],
      tags: STOREFRONT_TAG,
      links: { '/beacon.js': 'The script that counts visits from pages' },
      // Share links have the app proxy's path. If there is no proxy, they come here unchanged.
      unprefixed: [{ ...sharePage, path: `/apps/${config.APP_PROXY_PATH}${sharePage.path}` }],
    };
  },
});

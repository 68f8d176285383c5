// Puts the parts of wishlists together.

import type { AtProfile } from '../redis/at-profile.js';
import type { Store } from '../redis/store.js';
import type { Changes } from './changes.js';
import { Items } from './items.js';
import { Purchases } from './purchases.js';
import { SettingsStore } from './settings.js';
import { Shares } from './shares.js';

export interface WishlistParts {
  readonly items: Items;
  readonly shares: Shares;
  readonly purchases: Purchases;
  readonly settings: SettingsStore;
}

/**
 * @param shopUrl address of the shop, without a slash at its end
 * @param proxyPath where the shop's app proxy is, under `/apps/`
 */
export function openWishlist(
  store: Store,
  atProfile: AtProfile,
  changes: Changes,
  shopUrl: string,
  proxyPath: string,
): WishlistParts {
  return {
    items: new Items(atProfile, changes),
    shares: new Shares(store, changes, `${shopUrl}/apps/${proxyPath}/wishlist/share/`, atProfile),
    purchases: new Purchases(atProfile, changes),
    settings: new SettingsStore(store),
  };
}

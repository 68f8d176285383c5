// Puts the parts of wishlists together.

import type { Wishers } from '../extras/alerts/wishers.js';
import type { Place } from '../redis/place.js';
import type { Store } from '../redis/store.js';
import { Changes } from './changes.js';
import { Items } from './items.js';
import { Purchases } from './purchases.js';
import { SettingsStore } from './settings.js';
import { Shares } from './shares.js';
import type { WishlistBatch } from './wishlist-batch.js';

export interface WishlistParts {
  readonly items: Items;
  readonly shares: Shares;
  readonly purchases: Purchases;
  readonly settings: SettingsStore;
}

/**
 * @param placeOf follows merges to the present profile
 * @param shareUrl with `{code}` @param wishers if product alerts are on
 */
export function openWishlist(
  store: Store,
  batch: WishlistBatch,
  placeOf: (profileId: string) => Promise<Place | undefined>,
  shareUrl: string,
  wishers?: Wishers,
): WishlistParts {
  const changes = new Changes(batch);
  return {
    items: new Items(store, changes, wishers),
    shares: new Shares(store, changes, shareUrl, placeOf),
    purchases: new Purchases(store, changes, wishers),
    settings: new SettingsStore(store),
  };
}

// Composes the wishlist's parts.

import type { ItemIndex } from '../profiles/item-index.js';
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

export interface WishlistSpec {
  readonly store: Store;
  readonly batch: WishlistBatch;
  /** @returns where the data of a profile are after merges */
  readonly presentOf: (profileId: string) => Promise<string>;
  /** Contains `{code}`. */
  readonly shareUrl: string;
  readonly itemIndexes?: readonly ItemIndex[];
}

export function openWishlist({
  store,
  batch,
  presentOf,
  shareUrl,
  itemIndexes = [],
}: WishlistSpec): WishlistParts {
  const changes = new Changes(batch);
  return {
    items: new Items(store, changes, itemIndexes),
    shares: new Shares(store, changes, shareUrl, presentOf),
    purchases: new Purchases(store, changes, itemIndexes),
    settings: new SettingsStore(store),
  };
}

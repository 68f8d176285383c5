// Opens the item services for the command line.

import type { Logger } from 'pino';
import { type Closeable, openIdentityOnly, openKnownStore, withClosers } from '../../app/opening.js';
import type { Visitors } from '../../profiles/visitors.js';
import type { Store } from '../../redis/store.js';
import type { Items } from '../../wishlist/items.js';
import { openWishlist } from '../../wishlist/open.js';
import { WishlistBatch } from '../../wishlist/wishlist-batch.js';
import { openItemIndexes } from '../item-indexes.js';
import type { ImportConfig } from '../settings.js';

export interface Importing extends Closeable {
  readonly store: Store;
  readonly visitors: Visitors;
  readonly items: Items;
}

export function openImport(config: ImportConfig, log: Logger, urls: readonly string[]): Promise<Importing> {
  return withClosers(async (onClose) => {
    const store = await openKnownStore(config, 'wishmeter import', log, { urls });
    onClose(() => store.close());
    const itemIndexes = openItemIndexes({ store, config, onClose });
    const { visitors, locator } = openIdentityOnly(store, config, onClose, itemIndexes);
    const wishlists = new WishlistBatch(store, {
      highWater: config.STREAM_HIGH_WATER,
      guestsS: await store.guestRetentionS(),
      maxItems: config.MAX_ITEMS,
      maxBytes: config.MAX_ITEMS_BYTES,
    });
    onClose(() => wishlists.close());
    const presentOf = (profileId: string) => locator.presentOf(profileId);
    const { items } = openWishlist({
      store,
      batch: wishlists,
      presentOf,
      shareUrl: '',
      itemIndexes,
    });
    return { store, visitors, items };
  });
}

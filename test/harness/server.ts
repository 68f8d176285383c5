// A server without HTTP, built as in src/app/core.ts, with its own connection, caches and batches.

import { appendFormat } from '../../src/events/appender.js';
import { recordingFormat } from '../../src/events/recording.js';
import type { Limits } from '../../src/profiles/merge.js';
import { openProfiles, type ProfileStats } from '../../src/profiles/open.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { visitFormat } from '../../src/visits/visit-batch.js';
import type { ItemIndex } from '../../src/wishlist/item-index.js';
import { openWishlist } from '../../src/wishlist/open.js';
import { WishlistBatch } from '../../src/wishlist/wishlist-batch.js';

export type Parts = Awaited<ReturnType<typeof openParts>>;

export async function openParts<Index extends ItemIndex>(
  options: Omit<StoreOptions, 'name' | 'onError'>,
  highWater: number,
  indexOf: (store: Store) => Index | undefined = () => undefined,
  given: Partial<Limits> = {},
  stats: ProfileStats = {},
) {
  const store = await Store.open({ ...options, name: 'test', onError: () => {} });
  const maxProducts = given.products ?? 10_000;
  const visits = store.batcher(visitFormat({ keys: store.keys, maxProducts, guestsS: store.guestsS }));
  const appends = store.batcher(appendFormat(store, Number.MAX_SAFE_INTEGER));
  const recordings = store.batcher(recordingFormat(store, highWater));
  const wishlists = new WishlistBatch(store, { highWater });
  const itemIndex = indexOf(store);
  const itemIndexes = itemIndex === undefined ? [] : [itemIndex];
  const limits = { products: maxProducts, items: 0, itemBytes: 0, ...given };
  const identity = openProfiles({ store, visits, recordings, appends, limits, itemIndexes, stats });
  const presentOf = (profileId: string) => identity.locator.presentOf(profileId);
  const shareUrl = 'https://shop.example/apps/w/wishlist/share/{code}';
  return {
    ...{ store, visits, appends, recordings, wishlists, itemIndex, presentOf },
    ...identity,
    ...openWishlist({ store, batch: wishlists, presentOf, itemIndexes, shareUrl }),
    async close(): Promise<void> {
      for (const batcher of [visits, appends, recordings, wishlists]) await batcher.close();
      store.close();
    },
  };
}

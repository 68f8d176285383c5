// A server without HTTP, built as in src/app/core.ts, with its own connection, caches and batches.

import { appendFormat, mergeAppender } from '../../src/events/appender.js';
import { EventRecorder } from '../../src/events/recorder.js';
import { recordingFormat } from '../../src/events/recording.js';
import type { ItemIndex } from '../../src/profiles/item-index.js';
import type { Limits } from '../../src/profiles/merge.js';
import { openProfiles, type ProfileStats } from '../../src/profiles/open.js';
import { Store, type StoreOptions } from '../../src/redis/store.js';
import { VisitCounter } from '../../src/visits/counter.js';
import { linkReader, visitFormat } from '../../src/visits/visit-batch.js';
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
  const identity = openProfiles({
    ...{ store, limits, itemIndexes, stats },
    askLink: linkReader(visits),
    appendMerge: mergeAppender(appends),
  });
  const presentOf = (profileId: string) => identity.locator.presentOf(profileId);
  const shareUrl = 'https://shop.example/apps/w/wishlist/share/{code}';
  return {
    ...{ store, visits, appends, recordings, wishlists, itemIndex, presentOf },
    ...identity,
    counter: new VisitCounter(store, identity.visitors, visits, maxProducts),
    recorder: new EventRecorder(identity.visitors, recordings),
    ...openWishlist({ store, batch: wishlists, presentOf, itemIndexes, shareUrl }),
    async close(): Promise<void> {
      for (const batcher of [visits, appends, recordings, wishlists]) await batcher.close();
      store.close();
    },
  };
}

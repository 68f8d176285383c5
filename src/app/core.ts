// Opens the core of `serve`: visits, events, wishlists, visitors.

import { appendFormat, mergeAppender } from '../events/appender.js';
import { EventRecorder } from '../events/recorder.js';
import { recordingFormat } from '../events/recording.js';
import { eventOperations } from '../events/routes.js';
import { eventTypeOf } from '../events/row.js';
import { imageAddress } from '../http/html.js';
import { faultyFields, leftOut } from '../http/left-out.js';
import type { ServeMetrics } from '../http/metrics.js';
import type { Operation } from '../http/operation.js';
import { ERASED_AT_S, lastErasure } from '../profiles/erased-at.js';
import type { ItemIndex } from '../profiles/item-index.js';
import { openProfiles } from '../profiles/open.js';
import { profileOperations } from '../profiles/routes.js';
import { RequestStore } from '../redis/requests.js';
import { visitBatchOperation } from '../visits/batch-routes.js';
import { VisitCounter } from '../visits/counter.js';
import { visitListOperation } from '../visits/list-routes.js';
import { visitOperations } from '../visits/routes.js';
import { linkReader, visitFormat } from '../visits/visit-batch.js';
import { VisitLog } from '../visits/visit-log.js';
import { itemOperations } from '../wishlist/item-routes.js';
import { openWishlist } from '../wishlist/open.js';
import { OrderNotes } from '../wishlist/order-notes.js';
import { purchaseOperation } from '../wishlist/order-routes.js';
import { settingsOperations } from '../wishlist/settings-routes.js';
import { OPENS_SHARE, ShareOpens } from '../wishlist/share-opens.js';
import { shareOperations } from '../wishlist/share-routes.js';
import { watchSweeps } from '../wishlist/sweeper.js';
import { WishlistBatch } from '../wishlist/wishlist-batch.js';
import type { Core, Host } from './extra.js';
import { imageRuleOf } from './image-rule.js';
import { shareUrlOf } from './share-url.js';

export function openCore<Own>(
  host: Host<Own>,
  metrics: ServeMetrics,
  itemIndexes: readonly ItemIndex[],
): Omit<Core<Own>, 'visitorTags'> {
  const { config, store, timing, onClose, failuresOf } = host;
  const opened = <T extends { close(): Promise<void> }>(batcher: T): T => {
    onClose(() => batcher.close());
    return batcher;
  };
  const visitLog =
    config.VISIT_LOG === 'off'
      ? undefined
      : new VisitLog(store, { highWater: config.VISIT_LOG_HIGH_WATER, onNotLogged: metrics.visitsNotLogged });
  const visits = opened(
    store.batcher(
      visitFormat({
        keys: store.keys,
        maxProducts: config.MAX_PRODUCTS,
        guestsS: store.guestsS,
        log: visitLog,
        onCounted: metrics.visitsCounted,
      }),
      metrics.batchObserver('countVisits'),
    ),
  );
  const appends = opened(
    store.batcher(appendFormat(store, Number.MAX_SAFE_INTEGER), metrics.batchObserver('appendEvents')),
  );
  const recordings = opened(
    store.batcher(
      recordingFormat(store, config.STREAM_HIGH_WATER, metrics.recorded),
      metrics.batchObserver('recordEvents'),
    ),
  );
  const wishlists = opened(
    new WishlistBatch(
      store,
      { highWater: config.STREAM_HIGH_WATER, ...itemLimits(host), onRecorded: metrics.recorded },
      metrics.batchObserver('changeItems'),
    ),
  );
  const failed = { erasure: failuresOf('erasure'), merge: failuresOf('merge') };
  const identity = openProfiles({
    store,
    itemIndexes,
    askLink: linkReader(visits),
    appendMerge: mergeAppender(appends),
    limits: { products: config.MAX_PRODUCTS, items: config.MAX_ITEMS, itemBytes: config.MAX_ITEMS_BYTES },
    stats: {
      erased: metrics.erased,
      addressesDropped: metrics.addressesDropped,
      failed: (task, error) => failed[task](error),
      mergeLeftOut: metrics.mergeLeftOut,
      sessionLeftOut: metrics.sessionLeftOut,
    },
  });
  onClose(identity.resume.watch());
  const wishlist = openWishlist({
    store,
    batch: wishlists,
    itemIndexes,
    presentOf: (profileId) => identity.locator.presentOf(profileId),
    shareUrl: shareUrlOf(config),
  });
  for (const { tag } of itemIndexes) metrics.swept(tag, 0);
  onClose(
    watchSweeps({
      store,
      kinds: [wishlist.shares, identity.emails, ...itemIndexes],
      onSwept: metrics.swept,
      onFailed: failuresOf('sweep'),
      everyMs: timing.sweepMs,
      graceMs: timing.sweepGraceMs,
    }),
  );
  const openAppends = opened(
    store.batcher(appendFormat(store, Math.floor(config.STREAM_HIGH_WATER * OPENS_SHARE))),
  );
  const orderRows = opened(store.batcher(appendFormat(store, config.STREAM_HIGH_WATER)));
  return {
    ...host,
    appendOrder: async (profileId, line) => {
      await orderRows.run({ profileId, line });
      metrics.recorded(eventTypeOf(line), 1);
    },
    appends,
    identity,
    wishlist,
    visitCounter: new VisitCounter(store, identity.visitors, visits, config.MAX_PRODUCTS),
    eventRecorder: new EventRecorder(identity.visitors, recordings),
    requests: new RequestStore(store, timing.requestGraceMs),
    opens: new ShareOpens(openAppends, metrics.recorded, metrics.shareOpenLost),
  };
}

export function coreOperations(core: Core, metrics: ServeMetrics): Operation[] {
  const { config, log, store, identity, visitCounter: counter, eventRecorder, wishlist } = core;
  const { requests, opens, webhooks } = core;
  const { visitors, profiles } = identity;
  const { items, shares, purchases, settings } = wishlist;
  const imageRule = imageRuleOf(config);
  return [
    ...visitOperations(visitors, counter, requests, metrics.visitByRobot),
    visitListOperation(counter),
    visitBatchOperation(counter),
    ...eventOperations(visitors, eventRecorder, profiles, requests),
    ...itemOperations({ visitors, profiles, items, requests, store, limits: itemLimits(core) }),
    ...shareOperations({
      visitors,
      profiles,
      shares,
      items,
      opens,
      requests,
      imageOf: (address) => imageAddress(address, imageRule),
    }),
    ...profileOperations({ ...identity, requests }),
    ...settingsOperations(settings, requests),
    purchaseOperation(
      {
        visitors,
        counter,
        profiles,
        settings,
        purchases,
        notes: new OrderNotes(store, ERASED_AT_S),
        append: core.appendOrder,
        lastErasure: (profileId) => lastErasure(store, profileId),
        shopCurrency: config.SHOP_CURRENCY,
        onLeftOut: leftOut(metrics.orderLeftOut, log),
        onFaults: faultyFields(metrics.orderFault, log),
      },
      webhooks,
    ),
  ];
}

function itemLimits({ config }: Host) {
  return { maxItems: config.MAX_ITEMS, maxBytes: config.MAX_ITEMS_BYTES };
}

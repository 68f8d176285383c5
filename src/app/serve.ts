// Composition of `serve`: config -> connections -> routes.

import type { Logger } from 'pino';
import { VisitorRowReader } from '../clickhouse/visitor-rows.js';
import { appendFormat } from '../events/appender.js';
import { recordingFormat } from '../events/recording.js';
import { eventOperations } from '../events/routes.js';
import { openProducts, openWishers } from '../extras/alerts/open.js';
import { productLeftOut, productOperations } from '../extras/alerts/routes.js';
import { Compliance } from '../extras/privacy/compliance.js';
import { complianceOperations } from '../extras/privacy/compliance-routes.js';
import { ComplianceWorker } from '../extras/privacy/compliance-worker.js';
import { Exporter } from '../extras/privacy/exporter.js';
import { receiversOf } from '../extras/receivers/deliver.js';
import { receiverOperations } from '../extras/receivers/routes.js';
import { storefrontScripts } from '../extras/storefront/script-routes.js';
import { sharePageOperation } from '../extras/storefront/share-page/routes.js';
import { Access } from '../http/access.js';
import { docsFiles, docsOperations } from '../http/docs/routes.js';
import { faultyFields, leftOut } from '../http/left-out.js';
import { RateLimits } from '../http/limits.js';
import { LinkedSessions } from '../http/linked-sessions.js';
import { ServeMetrics } from '../http/metrics.js';
import { openApiOperation, VERSION } from '../http/openapi.js';
import { operatingOperations } from '../http/operating.js';
import type { Operation } from '../http/operation.js';
import { PendingBytes } from '../http/pending-bytes.js';
import { Server } from '../http/server.js';
import { reportFailures } from '../http/task-metrics.js';
import { loadUws } from '../http/uws.js';
import { collectProcessMetrics } from '../metrics/process.js';
import { openIdentity } from '../profiles/open.js';
import { profileOperations } from '../profiles/routes.js';
import { Sweeper } from '../profiles/sweeper.js';
import { RequestStore } from '../redis/requests.js';
import { visitBatchOperation } from '../visits/batch-routes.js';
import { visitListOperation } from '../visits/list-routes.js';
import { visitOperations } from '../visits/routes.js';
import { visitFormat } from '../visits/visit-batch.js';
import { VisitLog } from '../visits/visit-log.js';
import { ItemLimit } from '../wishlist/item-limit.js';
import { itemOperations } from '../wishlist/item-routes.js';
import { openWishlist } from '../wishlist/open.js';
import { OrderNotes } from '../wishlist/order-notes.js';
import { purchaseOperation } from '../wishlist/order-routes.js';
import { settingsOperations } from '../wishlist/settings-routes.js';
import { OPENS_SHARE, ShareOpens } from '../wishlist/share-opens.js';
import { shareOperations } from '../wishlist/share-routes.js';
import { WishlistBatch } from '../wishlist/wishlist-batch.js';
import { openFigures, type Siblings } from './figures.js';
import { type Closeable, withClosers } from './opening.js';
import { Outages } from './outages.js';
import { readinessOf } from './readiness.js';
import { openServedStore } from './served-store.js';
import type { ServeConfig } from './settings.js';
import type { Waiting } from './waiting.js';

/** Time, as tests set it. */
export interface Timing {
  /** Milliseconds: the clock of the rate limits of a worker alone, of the age of `/metrics` and of the log of outages. */
  readonly now?: () => number;
  /** Milliseconds within which a body must be complete. */
  readonly bodyTimeoutMs?: number;
  /** Milliseconds for which a repeat takes a request without an answer to be under way. */
  readonly requestGraceMs?: number;
  /** Milliseconds between looks at open compliance requests. */
  readonly compliancePollMs?: number;
  /** Milliseconds between sweeps, and for which what may be on its way is left. */
  readonly sweepMs?: number;
  readonly sweepGraceMs?: number;
  /** Milliseconds between looks at products that a process has left half done. */
  readonly productLookMs?: number;
}

/**
 * Share of the time-out of Redis that one turn of the event loop may take. Its answers are read in the turn after the
 * one that asked, so two have to fit. Queueing is cheaper than rejecting, so the share is no less than that.
 */
const TURN_SHARE = 0.4;

export interface Serving extends Closeable {
  readonly port: number;
  /** The package that uWebSockets.js comes from, and its version. */
  readonly uws: string;
  /** `/metrics` made now; over HTTP it may be up to a second old. */
  figures(): Promise<string>;
  /** See Server.drain; `close` comes after it. */
  drain(hurry?: AbortSignal): Promise<void>;
}

/** Of a shop that names none: its own, and those at which Shopify has the images of shops. */
function imageHostsOf({ IMAGE_HOSTS, SHOP_URL }: ServeConfig): readonly string[] {
  if (IMAGE_HOSTS.length > 0) return IMAGE_HOSTS;
  return [new URL(SHOP_URL).host, '*.myshopify.com', 'cdn.shopify.com'];
}

/**
 * One HTTP worker.
 * @param siblings where others share its port
 * @param clickhouseUrl where ClickHouse is now, which only exports ask; empty where there is none
 * @param timing as in production where it is absent
 * @param waiting waits for Redis; without it one that does not answer is a StartupError
 * @throws StartupError
 */
export function serve(
  config: ServeConfig,
  log: Logger,
  siblings?: Siblings,
  clickhouseUrl = () => config.CLICKHOUSE_URL,
  timing: Timing = {},
  waiting?: Waiting,
): Promise<Serving> {
  return withClosers(async (onClose) => {
    const { uws, from: uwsFrom } = await loadUws();
    let server: Server;
    const pending = new PendingBytes(undefined, timing.now);
    const metrics = new ServeMetrics(() => server.openRequests, config.VISIT_LOG === 'on', uwsFrom, pending);
    onClose(collectProcessMetrics(metrics.registry, VERSION));
    const onFailed = reportFailures(metrics.registry, log);
    const { store, port, closeDoor } = await openServedStore(config, log, metrics, uws, waiting, onClose);
    onClose(() => store.close());
    const outages = new Outages(log, () => store.masters, timing.now);
    onClose(outages.watch());

    const access = new Access({
      apiKeys: config.API_KEYS,
      publishableKeys: config.PUBLISHABLE_KEYS,
      allowedOrigins: config.ALLOWED_ORIGINS,
      shopifySecrets: config.SHOPIFY_SECRET,
      shopUrl: config.SHOP_URL,
      visitAccess: config.VISIT_ACCESS,
      metricsToken: config.METRICS_TOKEN,
    });

    const visitLog =
      config.VISIT_LOG === 'off'
        ? undefined
        : new VisitLog(store, {
            highWater: config.VISIT_LOG_HIGH_WATER,
            onNotLogged: metrics.visitsNotLogged,
          });
    const visits = store.batcher(
      visitFormat(store.keys, config.MAX_PRODUCTS, store.guestsS, visitLog, metrics.visitsCounted),
      metrics.batchObserver('visits'),
    );
    onClose(() => visits.close());
    const appends = store.batcher(
      appendFormat(store, Number.MAX_SAFE_INTEGER),
      metrics.batchObserver('append'),
    );
    onClose(() => appends.close());
    const recordings = store.batcher(
      recordingFormat(store, config.STREAM_HIGH_WATER, metrics.recorded),
      metrics.batchObserver('record'),
    );
    onClose(() => recordings.close());
    const itemLimits = { maxItems: config.MAX_ITEMS, maxBytes: config.MAX_ITEMS_BYTES };
    const wishlists = new WishlistBatch(
      store,
      { highWater: config.STREAM_HIGH_WATER, ...itemLimits, onRecorded: metrics.recorded },
      metrics.batchObserver('wishlist'),
    );
    onClose(() => wishlists.close());
    const requests = new RequestStore(store, undefined, timing.requestGraceMs);
    const wishers = openWishers(store, config, onClose, metrics.batchObserver('wish'));
    const limit = config.MAX_PRODUCTS;
    const identityFigures = {
      erased: metrics.erased,
      addressesDropped: metrics.addressesDropped,
      failed: onFailed,
    };
    const identity = openIdentity(
      store,
      visits,
      recordings,
      appends,
      limit,
      identityFigures,
      wishers && [wishers],
    );
    const { redirects, visitors, profiles } = identity;
    onClose(identity.resume.watch());
    const { items, shares, purchases, settings } = openWishlist(
      store,
      wishlists,
      (profileId) => redirects.placeOf(profileId),
      config.SHARE_URL || `${config.SHOP_URL}/apps/${config.APP_PROXY_PATH}/wishlist/share/{code}`,
      wishers,
    );
    const sweeper = new Sweeper(
      {
        ...{ store, shares, emails: identity.emails, wishers },
        onSwept: metrics.swept,
        onFailed: (error) => onFailed('sweep', error),
      },
      timing.sweepMs,
      timing.sweepGraceMs,
    );
    onClose(sweeper.watch());
    const products = openProducts(
      store,
      wishlists,
      wishers,
      redirects,
      config.SHOP_CURRENCY || null,
      // A product is nobody's: its row is in the stream of the first bucket.
      (line) => appends.run({ profileId: '0.', line }),
      (error) => onFailed('product', error),
      metrics.productOfFuture,
      onClose,
      timing.productLookMs,
    );
    const openAppends = store.batcher(
      appendFormat(store, Math.floor(config.STREAM_HIGH_WATER * OPENS_SHARE)),
    );
    onClose(() => openAppends.close());
    const opens = new ShareOpens(openAppends, metrics.recorded, metrics.shareOpenLost);
    const compliance = new Compliance(store, (error) => onFailed('request', error));
    const worker = new ComplianceWorker(
      store,
      compliance,
      identity.eraser,
      identity.shopEraser,
      (error) => onFailed('request', error),
      timing.compliancePollMs,
    );
    onClose(worker.watch());
    const rows = new VisitorRowReader(clickhouseUrl, config.CLICKHOUSE_DATABASE);
    onClose(() => rows.close());
    const exporter = new Exporter(
      store,
      identity.links,
      redirects,
      identity.emails,
      rows.read.bind(rows),
      identity.belongings,
    );

    const receivers = receiversOf(store, config);
    const sharePage = sharePageOperation(
      shares,
      items,
      opens,
      {
        url: config.SHOP_URL,
        name: config.SHOP_NAME,
        imageHosts: imageHostsOf(config),
        productUrl: config.PRODUCT_URL || `${config.SHOP_URL}/products/{handle}?variant={variant}`,
      },
      config.SHARE_PAGE_URL,
    );
    const operations: Operation[] = [
      ...visitOperations(visitors, requests, metrics.visitByRobot),
      visitListOperation(visitors),
      visitBatchOperation(identity.manyVisits),
      ...eventOperations(visitors, profiles, requests),
      ...itemOperations(visitors, profiles, items, new ItemLimit(store, itemLimits), requests),
      ...shareOperations(visitors, profiles, shares, items, opens, requests),
      sharePage,
      ...profileOperations({ ...identity, exporter, requests }),
      ...settingsOperations(settings, requests),
      ...receiverOperations(receivers, requests),
      ...productOperations(
        products,
        requests,
        config.SHOPIFY_SECRET,
        productLeftOut(metrics.productLeftOut, log),
      ),
      purchaseOperation(
        {
          ...{ visitors, profiles, settings, purchases },
          notes: new OrderNotes(store),
          onLeftOut: leftOut(metrics.orderLeftOut, log),
          onFaults: faultyFields(metrics.orderFault, log),
        },
        config.SHOPIFY_SECRET,
      ),
      ...complianceOperations(compliance, worker, identity.emails, config.SHOPIFY_SECRET),
      ...storefrontScripts(config.SCRIPT_NAME),
      ...docsOperations(config.BASE_PATH),
    ];
    const figures = openFigures({ store, config, metrics, compliance, receivers, products, siblings });
    const unprefixed = operatingOperations(
      async () => (server.isStopping ? { why: 'the process is stopping' } : readinessOf(await store.look())),
      figures,
      timing.now,
    );
    operations.push(openApiOperation(config.BASE_PATH, operations, unprefixed));
    // Where no app proxy stands before it, this service is at the shop's address itself, and so are its share links.
    const atShareLink = { ...sharePage, path: `/apps/${config.APP_PROXY_PATH}${sharePage.path}` };
    server = new Server({
      access,
      limits: new RateLimits({
        perCaller: config.RATE_LIMIT,
        perAnonymousAddress: config.ANONYMOUS_RATE_LIMIT,
        trustedProxies: config.TRUST_PROXY,
        workers: siblings?.workers,
        now: timing.now,
      }),
      linkedSessions: new LinkedSessions(visitors, config.LINKED_SESSIONS),
      log,
      onAnswers: metrics.countAnswers,
      onRefusal(code, overload, sentence) {
        metrics.refused(code, overload);
        outages.refused(code, overload, sentence);
      },
      pending,
      longestTurnMs: config.REDIS_TIMEOUT_MS * TURN_SHARE,
      trustedProxies: config.TRUST_PROXY,
      bodyTimeoutMs: timing.bodyTimeoutMs,
      uws,
      host: config.HOST,
      port,
      basePath: config.BASE_PATH,
      operations: [...operations, ...docsFiles()],
      unprefixed: [...unprefixed, atShareLink],
    });
    onClose(() => server.close());
    closeDoor(); // they shared the port
    return {
      port: server.port,
      uws: uwsFrom,
      figures: async () => (await figures()).body,
      drain: (hurry) => server.drain(config.DRAIN_MS, hurry),
    };
  });
}

// Composition of `serve`: config -> connections -> core -> extras -> server.

import type { Logger } from 'pino';
import { Access } from '../http/access.js';
import { docsFiles, docsOperations } from '../http/docs/routes.js';
import { RateLimits } from '../http/limits.js';
import { LinkedSessions } from '../http/linked-sessions.js';
import { createServeMetrics } from '../http/metrics.js';
import { openApiOperation } from '../http/openapi.js';
import { operatingOperations } from '../http/operating.js';
import { PendingBytes } from '../http/pending-bytes.js';
import { Server } from '../http/server.js';
import { reportFailures } from '../http/task-metrics.js';
import { loadUws } from '../http/uws.js';
import { WebhookGate } from '../http/webhook.js';
import { atMostOnceASecond } from '../metrics/exposition.js';
import { collectProcessMetrics } from '../metrics/process.js';
import { VERSION } from '../version.js';
import { coreOperations, openCore } from './core.js';
import { warnOfEviction } from './eviction.js';
import type { Extra, Host, Timing } from './extra.js';
import { type Closeable, withClosers } from './opening.js';
import { Outages } from './outages.js';
import { readinessOf } from './readiness.js';
import { openServedStore } from './served-store.js';
import type { ServeConfig } from './settings.js';
import { openStats, type Siblings } from './stats.js';
import type { Waiting } from './waiting.js';

/**
 * A tick of the event loop may take this share of Redis's time-out. Replies are read one tick after the call, so two
 * ticks have to fit.
 */
const TICK_SHARE = 0.4;

export interface Serving extends Closeable {
  readonly port: number;
  readonly uws: string;
  /** @returns the present metrics; over HTTP they may be a second old */
  stats(): Promise<string>;
  drain(hurry?: AbortSignal): Promise<void>;
}

export interface ServeOptions<Own = unknown> {
  readonly extras?: readonly Extra<Own>[];
  readonly siblings?: Siblings | undefined;
  /** ClickHouse's URL for exports, by default CLICKHOUSE_URL; '' if there is none. */
  readonly clickhouseUrl?: () => string;
  readonly timing?: Timing;
  /** If it is undefined and Redis doesn't answer, `serve` throws a StartupError. */
  readonly waiting?: Waiting | undefined;
}

export function serve<Own>(
  config: ServeConfig & Own,
  log: Logger,
  {
    extras = [],
    siblings,
    clickhouseUrl = () => config.CLICKHOUSE_URL,
    timing = {},
    waiting,
  }: ServeOptions<Own> = {},
): Promise<Serving> {
  return withClosers(async (onClose) => {
    const { uws, from: uwsFrom } = await loadUws();
    let server: Server;
    const pending = new PendingBytes(timing.maxPendingBytes, timing.now);
    const metrics = createServeMetrics(
      () => server.openRequests,
      config.VISIT_LOG === 'on',
      uwsFrom,
      pending,
    );
    onClose(collectProcessMetrics(metrics.registry, VERSION));
    const failuresOf = reportFailures(metrics.registry, log);
    const { store, port, closeDoor } = await openServedStore({ config, log, metrics, uws, waiting, onClose });
    onClose(() => store.close());
    void warnOfEviction(store, log);
    const outages = new Outages(log, () => store.masters, timing.now);
    onClose(outages.watch());

    const access = new Access({
      apiKeys: config.API_KEYS,
      publishableKeys: config.PUBLISHABLE_KEYS,
      allowedOrigins: config.ALLOWED_ORIGINS,
      shopifySecrets: config.SHOPIFY_SECRET,
      shopDomain: config.SHOP_DOMAIN,
      shopUrl: config.SHOP_URL,
      visitAccess: config.VISIT_ACCESS,
      metricsToken: config.METRICS_TOKEN,
    });

    const host: Host<Own> = {
      config,
      log,
      store,
      timing,
      clickhouseUrl,
      failuresOf,
      onClose,
      registry: metrics.registry,
      recorded: metrics.recorded,
      batchObserver: (script) => metrics.batchObserver(script),
      webhooks: new WebhookGate({
        secrets: config.SHOPIFY_SECRET,
        shopDomain: config.SHOP_DOMAIN,
        count: metrics.webhookLeftOut,
        log,
      }),
    };
    const opened = extras.map((extra) => extra(host));
    const itemIndexes = opened.flatMap(({ itemIndex }) => itemIndex ?? []);
    const visitorTags = opened.flatMap((extra) => extra.visitorTags ?? []);
    const core = { ...openCore(host, metrics, itemIndexes), visitorTags };
    const plugs = opened.map((extra) => extra.plug(core));
    const operations = [
      ...coreOperations(core, metrics),
      ...plugs.flatMap((plug) => plug.operations ?? []),
      ...docsOperations(config.BASE_PATH, Object.assign({}, ...plugs.map((plug) => plug.links))),
    ];
    const stats = openStats({ store, config, metrics, plugs, siblings });
    const looked = atMostOnceASecond(() => store.check(), timing.now);
    const unprefixed = operatingOperations(
      async () => {
        if (server.isStopping) return { why: 'the process is stopping' };
        await looked();
        return readinessOf(store.masters);
      },
      stats,
      timing.now,
    );
    const documented = {
      tags: Object.assign({}, ...plugs.map((plug) => plug.tags)),
      webhooks: Object.assign({}, ...plugs.map((plug) => plug.webhooks)),
    };
    operations.push(openApiOperation(config.BASE_PATH, operations, unprefixed, documented));
    server = new Server({
      access,
      limits: new RateLimits({
        perCaller: config.RATE_LIMIT,
        perAnonymousAddress: config.ANONYMOUS_RATE_LIMIT,
        trustedProxies: config.TRUST_PROXY,
        workers: siblings?.workers,
        now: timing.now,
      }),
      linkedSessions: new LinkedSessions(
        (identity) => core.identity.visitors.belongsToCustomer(identity),
        config.LINKED_SESSIONS,
      ),
      log,
      onAnswers: metrics.countAnswers,
      onRefusal(code, overload, sentence) {
        metrics.refused(code, overload);
        outages.refused(code, overload, sentence);
      },
      pending,
      longestTickMs: config.REDIS_TIMEOUT_MS * TICK_SHARE,
      trustedProxies: config.TRUST_PROXY,
      bodyTimeoutMs: timing.bodyTimeoutMs,
      uws,
      host: config.HOST,
      port,
      basePath: config.BASE_PATH,
      operations: [...operations, ...docsFiles()],
      unprefixed: [...unprefixed, ...plugs.flatMap((plug) => plug.unprefixed ?? [])],
    });
    onClose(() => server.close());
    closeDoor(); // The server that answered probes shared the port.
    return {
      port: server.port,
      uws: uwsFrom,
      stats: async () => (await stats()).body,
      drain: (hurry) => server.drain(config.DRAIN_MS, hurry),
    };
  });
}

// Composition of `flush`: migrates the schema, then flushes all streams.

import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { createClickHouse } from '../clickhouse/client.js';
import { clusterSettings } from '../clickhouse/cluster.js';
import { keepDaysTotalled } from '../clickhouse/daily-totals.js';
import { fingerprintOf, knownDeployment, recordDeployment } from '../clickhouse/deployment.js';
import type { Erasures } from '../clickhouse/erased-rows.js';
import {
  type KeptSettings,
  keepSettings,
  resolveSettings,
  visitsBeyond,
} from '../clickhouse/kept-settings.js';
import { migrate } from '../clickhouse/migrate.js';
import { clickHouseStartupError } from '../clickhouse/unanswered.js';
import { StartupError } from '../errors.js';
import { startFlusher } from '../flush/flusher.js';
import { watchErasures } from '../flush/row-eraser.js';
import { listenForMetrics } from '../metrics/metrics-server.js';
import { collectProcessMetrics } from '../metrics/process.js';
import { DeploymentLostError } from '../redis/node-markers.js';
import { VERSION } from '../version.js';
import type { FlushExtra } from './extra.js';
import { type Closeable, FLUSH_REDIS_TIMEOUT_MS, openStore, withClosers } from './opening.js';
import { Outages } from './outages.js';
import type { FlushConfig } from './settings.js';
import { opened, type Waiting } from './waiting.js';

export interface Flushing extends Closeable {
  /** Rejects if another Redis answers at this address: the data of both must not be mixed. */
  readonly lost: Promise<never>;
}

export interface FlushOptions<Own = unknown> {
  readonly clickhouseUrl?: string;
  readonly waiting?: Waiting | undefined;
  readonly extras?: readonly FlushExtra<Own>[];
}

export function flush<Own>(
  config: FlushConfig & Own,
  log: Logger,
  { clickhouseUrl = config.CLICKHOUSE_URL, waiting, extras = [] }: FlushOptions<Own> = {},
): Promise<Flushing> {
  return withClosers(async (onClose) => {
    let isOpen = false;
    const metrics = new Registry();
    if (config.FLUSH_METRICS_PORT !== undefined) {
      onClose(collectProcessMetrics(metrics, VERSION));
      const server = await listenForMetrics({
        host: config.HOST,
        port: config.FLUSH_METRICS_PORT,
        token: config.METRICS_TOKEN,
        registry: metrics,
        log,
        whyNotReady: () => (isOpen ? undefined : (waiting?.why ?? 'the process is starting')),
      });
      onClose(() => server.close());
      log.info({ port: server.port }, 'metrics');
    }
    const asked = <T>(ask: () => Promise<T>) =>
      opened(waiting, 'ClickHouse', () =>
        ask().catch((error) => {
          throw clickHouseStartupError(error, 'ClickHouse does not take the schema');
        }),
      );
    const kept = await asked(() => migrateDatabase(config, log, clickhouseUrl));
    const { CLICKHOUSE_DATABASE: database } = config;
    const { CLICKHOUSE_CLUSTER: cluster } = kept;
    const clickhouse = createClickHouse(clickhouseUrl, database, clusterSettings(cluster));
    onClose(() => clickhouse.close());
    const known = await asked(() => knownDeployment(clickhouse, config.KEY_PREFIX));
    let onLost: (error: Error) => void = () => {};
    const lost = new Promise<never>((_, reject) => {
      onLost = reject;
    });
    lost.catch(() => {}); // avoids an unhandled rejection if nothing awaits it
    const store = await opened(waiting, 'Redis', () =>
      openStore(config, 'wishmeter flush', log, {
        timeoutMs: FLUSH_REDIS_TIMEOUT_MS,
        confirm(salt) {
          if (config.NEW_DEPLOYMENT !== 'accept') refuseStranger(known, salt);
        },
        onError(error) {
          if (error instanceof DeploymentLostError) onLost(error);
          else log.warn({ err: error }, 'redis connection');
        },
      }),
    );
    onClose(() => store.close());
    const fingerprint = fingerprintOf(store.deployment.salt);
    if (fingerprint !== known)
      await asked(() => recordDeployment(clickhouse, config.KEY_PREFIX, fingerprint));
    const outages = new Outages(log, () => store.masters);
    const stopWatching = outages.watch();
    onClose(stopWatching);
    lost.catch(stopWatching); // the process ends, and says why
    const onOutage = (why: string) => outages.begin(why);
    const streams = { redis: store.client, keys: store.keys, clickhouse, log, metrics, onOutage };
    const handOvers = extras.map((extra) => extra({ config, log, redis: store.client, keys: store.keys }));
    const flusher = startFlusher({
      ...streams,
      async handOver(...batch) {
        for (const one of handOvers) await one.handOver(...batch);
      },
      intervalMs: config.FLUSH_INTERVAL_MS,
    });
    onClose(() => flusher.close());
    const erasing = {
      ...streams,
      cluster,
      async eraseInExtras(erased: Erasures) {
        for (const one of handOvers) await one.erase(erased);
      },
    };
    onClose(watchErasures(erasing, config.ERASURE_INTERVAL_S));
    const days = { keptDays: kept.VISIT_RETENTION_DAYS, timeZone: kept.SHOP_TIMEZONE, cluster };
    onClose(keepDaysTotalled(clickhouse, days, log));
    isOpen = true;
    return { lost };
  });
}

function refuseStranger(known: string | undefined, salt: string | undefined): void {
  if (known === undefined || (salt !== undefined && fingerprintOf(salt) === known)) return;
  const what = salt === undefined ? 'is empty' : 'holds another deployment';
  throw new StartupError(
    `Redis ${what}, but ClickHouse has events of an earlier one, whose visitors it could not recognise: bring ` +
      'its data back, or set NEW_DEPLOYMENT=accept once to begin anew.',
  );
}

async function migrateDatabase(config: FlushConfig, log: Logger, url: string): Promise<KeptSettings> {
  const { CLICKHOUSE_DATABASE: database } = config;
  const clickhouse = createClickHouse(url, undefined, clusterSettings(config.CLICKHOUSE_CLUSTER));
  try {
    const { settings, changes } = await resolveSettings(clickhouse, database, config);
    const { CLICKHOUSE_CLUSTER: cluster, SHOP_TIMEZONE: timeZone } = settings;
    for (const change of changes) log.warn(change, 'a setting of the ClickHouse database changes');
    if (changes.some(({ setting }) => setting === 'VISIT_RETENTION_DAYS')) {
      const visits = await visitsBeyond(clickhouse, database, settings.VISIT_RETENTION_DAYS);
      log.warn({ visits }, 'visits are older than that: each is deleted once its day is totalled');
    }
    const ran = await migrate(clickhouse, database, { cluster, timeZone });
    if (ran.length > 0) log.info({ migrations: ran }, 'migrated');
    await keepSettings(clickhouse, database, settings);
    return settings;
  } finally {
    await clickhouse.close();
  }
}

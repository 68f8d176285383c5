// Composition of `dashboard`: ClickHouse for its figures, and Redis for its page of receivers, which is opened when that page
// is first asked for. Without a Redis that answers, the other pages work.

import type { Logger } from 'pino';
import { createClickHouse } from '../clickhouse/client.js';
import { clickHouseStartupError } from '../clickhouse/unanswered.js';
import { startDashboard } from '../dashboard/server.js';
import { atMostOnceASecond } from '../metrics/exposition.js';
import { openReceivers } from './deliver.js';
import { type Closeable, withClosers } from './opening.js';
import type { DashboardConfig } from './settings.js';
import type { Waiting } from './waiting.js';

export interface Dashboard extends Closeable {
  readonly port: number;
  /** Rejects if ClickHouse refuses for a reason that waiting does not mend. */
  readonly refused: Promise<never>;
}

/**
 * Serves the dashboard until it is closed. It is up before ClickHouse is.
 * @param waiting as of `serve`, for ClickHouse @throws StartupError where its port can't be listened on
 */
export function dashboard(config: DashboardConfig, log: Logger, waiting?: Waiting): Promise<Dashboard> {
  return withClosers(async (onClose) => {
    const clickhouse = createClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_DATABASE);
    onClose(() => clickhouse.close());
    const ask = async () => {
      await clickhouse.query({ query: 'SELECT 1' }).then(
        (answer) => answer.text(),
        (error) => {
          throw clickHouseStartupError(error, 'ClickHouse refuses the user of CLICKHOUSE_URL');
        },
      );
    };
    const whyNotReady = atMostOnceASecond(() =>
      ask().then(
        () => undefined,
        (error: Error) => error.message.replace(/\.$/, ''),
      ),
    );
    const opened = openWhenAsked(() =>
      openReceivers(config, log, config.REDIS_URL, { name: 'wishmeter dashboard', timeoutMs: REDIS_MS }),
    );
    onClose(() => opened.close());
    const { port, close } = await startDashboard({
      host: config.HOST,
      port: config.DASHBOARD_PORT,
      token: config.DASHBOARD_TOKEN,
      clickhouse,
      ...(config.REDIS_URL.length > 0 ? { receivers: async () => (await opened.get()).receivers } : {}),
      log,
      whyNotReady,
      timeZone: config.SHOP_TIMEZONE ?? 'UTC',
      servicePort: config.PORT,
      basePath: config.BASE_PATH,
    });
    onClose(close);
    const refused = new Promise<never>((_, reject) => {
      waiting?.until('ClickHouse', ask).catch(reject);
    });
    refused.catch(() => {}); // avoids an unhandled rejection; callers that await it are told
    return { port, refused };
  });
}

/** Milliseconds that the page waits for Redis. */
const REDIS_MS = 2_000;

/** What failed to open is opened again when it is next asked for. */
function openWhenAsked<T extends Closeable>(open: () => Promise<T>): Closeable & { get(): Promise<T> } {
  let opened: Promise<T> | undefined;
  return {
    get() {
      opened ??= open().catch((error) => {
        opened = undefined;
        throw error;
      });
      return opened;
    },
    async close() {
      const one = await opened?.catch(() => undefined);
      await one?.close();
    },
  };
}

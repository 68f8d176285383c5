// The command `dashboard`. The first request for receivers connects to Redis; other pages don't need Redis.

import type { Logger } from 'pino';
import { imageRuleOf } from '../../app/image-rule.js';
import { type Closeable, withClosers } from '../../app/opening.js';
import type { Waiting } from '../../app/waiting.js';
import { createClickHouse } from '../../clickhouse/client.js';
import { watchTimeZone } from '../../clickhouse/kept-settings.js';
import { clickHouseStartupError } from '../../clickhouse/unanswered.js';
import { atMostOnceASecond } from '../../metrics/exposition.js';
import { openReceivers } from '../receivers/deliver.js';
import type { DashboardConfig } from '../settings.js';
import { productUrlOf, shopLinks } from '../shop-links.js';
import { startDashboard } from './server.js';
import { Service } from './visitors/service.js';
import { VisitorsPage } from './visitors/visitors-page.js';

export interface Dashboard extends Closeable {
  readonly port: number;
  readonly refused: Promise<never>;
}

/** Doesn't wait for ClickHouse. @throws StartupError if it can't listen on its port */
export function dashboard(config: DashboardConfig, log: Logger, waiting?: Waiting): Promise<Dashboard> {
  return withClosers(async (onClose) => {
    const clickhouse = createClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_DATABASE);
    onClose(() => clickhouse.close());
    const keptTimeZone = watchTimeZone(clickhouse, config.CLICKHOUSE_DATABASE);
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
      logins: config.DASHBOARD_LOGINS,
      clickhouse,
      ...(config.REDIS_URL.length > 0 ? { receivers: async () => (await opened.get()).receivers } : {}),
      ...(config.DASHBOARD_VISITORS === 'on' ? { visitors: visitorsPage(config, log) } : {}),
      log,
      whyNotReady,
      timeZone:
        config.SHOP_TIMEZONE === undefined ? keptTimeZone : async () => config.SHOP_TIMEZONE as string,
      servicePort: config.PORT,
      basePath: config.BASE_PATH,
      images: imageRuleOf(config),
      productUrl: productUrlOf(config),
    });
    onClose(close);
    const refused = new Promise<never>((_, reject) => {
      waiting?.until('ClickHouse', ask).catch(reject);
    });
    refused.catch(() => {}); // the caller may not await it
    return { port, refused };
  });
}

const REDIS_MS = 2_000;
/** `serve` waits up to 30 s for ClickHouse. */
const SERVICE_MS = 45_000;

function visitorsPage(config: DashboardConfig, log: Logger): VisitorsPage {
  const service = new Service(config.DASHBOARD_API_URL, config.DASHBOARD_API_KEY, SERVICE_MS);
  return new VisitorsPage(service, shopLinks(config), log);
}

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

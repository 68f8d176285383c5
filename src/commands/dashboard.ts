// `wishmeter dashboard`: the shop's figures as a page, read from CLICKHOUSE_URL as a user who may read the views.

import { createClickHouse } from '../clickhouse/client.js';
import { startDashboard } from '../dashboard/server.js';
import { StartupError } from '../errors.js';
import { type Program, requireSettings } from './program.js';

export async function dashboard({ config, log, ready, untilStopped }: Program<'dashboard'>): Promise<number> {
  requireSettings('dashboard', { CLICKHOUSE_URL: config.CLICKHOUSE_URL });
  if (config.DASHBOARD_TOKEN === '') {
    throw new StartupError(
      '`wishmeter dashboard` needs DASHBOARD_TOKEN, 16 or more visible characters that open it; `openssl rand -base64 24` makes one.',
    );
  }
  const stopped = untilStopped();
  const clickhouse = createClickHouse(config.CLICKHOUSE_URL, config.CLICKHOUSE_DATABASE);
  try {
    const server = await startDashboard({
      host: config.HOST,
      port: config.DASHBOARD_PORT,
      token: config.DASHBOARD_TOKEN,
      clickhouse,
      log,
      timeZone: config.SHOP_TIMEZONE,
      servicePort: config.PORT,
      basePath: config.BASE_PATH,
    });
    try {
      log.info({ host: config.HOST, port: server.port }, 'dashboard');
      ready({ port: server.port });
      log.info({ signal: await stopped }, 'stopping');
    } finally {
      await server.close();
    }
  } finally {
    await clickhouse.close();
  }
  return 0;
}

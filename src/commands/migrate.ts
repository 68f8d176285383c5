// `wishmeter migrate`: brings the database at CLICKHOUSE_URL to this program's schema, and says what it did.
// `flush` does the same when it starts; this is for those who roll out the schema first.

import { createClickHouse } from '../clickhouse/client.js';
import { clusterSettings } from '../clickhouse/cluster.js';
import { migrate as runMigrations } from '../clickhouse/migrate.js';
import { keepVisitsFor } from '../clickhouse/visit-retention.js';
import { StartupError } from '../errors.js';
import { serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings } from './program.js';

/** @throws StartupError where ClickHouse does not answer or refuses. */
export async function migrate({ config, stdout }: Program<'migrate'>): Promise<number> {
  const CLICKHOUSE_URL = serviceClickHouse(config);
  requireSettings('migrate', { CLICKHOUSE_URL });
  const { CLICKHOUSE_DATABASE, CLICKHOUSE_CLUSTER: cluster } = config;
  const client = createClickHouse(CLICKHOUSE_URL, undefined, clusterSettings(cluster));
  try {
    const ran = await runMigrations(client, CLICKHOUSE_DATABASE, {
      cluster,
      timeZone: config.SHOP_TIMEZONE,
    });
    await keepVisitsFor(client, CLICKHOUSE_DATABASE, config.VISIT_RETENTION_DAYS, cluster);
    stdout.write(ran.length > 0 ? `${ran.join('\n')}\n` : 'Nothing to do.\n');
    return 0;
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(`The migration failed: ${(error as Error).message.trim().replace(/\s+/g, ' ')}`);
  } finally {
    await client.close();
  }
}

// `wishmeter migrate`: migrates ClickHouse before a rollout; `flush` does the same when it starts.

import { createClickHouse } from '../clickhouse/client.js';
import { clusterSettings } from '../clickhouse/cluster.js';
import {
  keepSettings,
  type ResolvedSettings,
  resolveSettings,
  visitsBeyond,
} from '../clickhouse/kept-settings.js';
import { migrate as runMigrations } from '../clickhouse/migrate.js';
import { StartupError } from '../errors.js';
import { serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings } from './program.js';

export async function migrate({ config, options, stdout }: Program<'migrate'>): Promise<number> {
  const CLICKHOUSE_URL = serviceClickHouse(config);
  requireSettings('migrate', { CLICKHOUSE_URL });
  const { CLICKHOUSE_DATABASE: database } = config;
  const client = createClickHouse(CLICKHOUSE_URL, undefined, clusterSettings(config.CLICKHOUSE_CLUSTER));
  try {
    const settled = await resolveSettings(client, database, config);
    const { settings, changes } = settled;
    if (changes.length > 0 && options.yes !== true) {
      const visits = await visitsBeyond(client, database, settings.VISIT_RETENTION_DAYS);
      throw new StartupError(
        `Nothing was changed. ${effectOf(settled, visits)} Give --yes to have it so, or leave out the setting.`,
      );
    }
    const { CLICKHOUSE_CLUSTER: cluster, SHOP_TIMEZONE: timeZone } = settings;
    const ran = await runMigrations(client, database, { cluster, timeZone });
    // Defaults of these two are not stored, because a backup may be restored later, and has settings of its own.
    const { VISIT_RETENTION_DAYS, SHOP_TIMEZONE } = config;
    await keepSettings(client, database, {
      CLICKHOUSE_CLUSTER: cluster,
      ...(VISIT_RETENTION_DAYS === undefined ? {} : { VISIT_RETENTION_DAYS }),
      ...(SHOP_TIMEZONE === undefined ? {} : { SHOP_TIMEZONE }),
    });
    const done = [...ran, ...changes.map(({ setting, from, to }) => `${setting}: ${from} -> ${to}`)];
    stdout.write(done.length > 0 ? `${done.join('\n')}\n` : 'Nothing to do.\n');
    return 0;
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(`The migration failed: ${(error as Error).message.trim().replace(/\s+/g, ' ')}`);
  } finally {
    await client.close();
  }
}

function effectOf({ changes }: ResolvedSettings, visits: number): string {
  return changes
    .map(({ setting, from, to }) => {
      const effect =
        setting === 'SHOP_TIMEZONE'
          ? 'all views would have days of that zone'
          : `\`flush\` would delete ${visits} visits that are older`;
      return `${setting} is ${from} in this database, and would be ${to}: ${effect}.`;
    })
    .join(' ');
}

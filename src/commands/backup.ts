// `wishmeter backup <folder>`: copies a running deployment into a new folder and verifies the copy.

import { backUp } from '../extras/backup/backup.js';
import { totalOf } from '../extras/backup/manifest.js';
import { oneFolder, withDatabases } from './both-databases.js';
import { redisUrls, serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings } from './program.js';
import { progressOn } from './progress.js';

export async function backup({ operands, config, stdout, version }: Program<'backup'>): Promise<number> {
  const folder = oneFolder('backup', operands);
  const clickhouseUrl = serviceClickHouse(config);
  requireSettings('backup', { CLICKHOUSE_URL: clickhouseUrl });
  const where = { config, redisUrls: redisUrls(config), clickhouseUrl };
  await withDatabases('There is no backup', where, async (databases) => {
    const progress = progressOn(stdout);
    const { redis, clickhouse } = await backUp(databases, folder, version, progress.show);
    progress.end();
    stdout.write(
      `${folder}: ${totalOf(redis.keys)} keys and ${totalOf(clickhouse.rows)} rows, read back and whole. Replies that running processes wait for are left out.\n`,
    );
  });
  return 0;
}

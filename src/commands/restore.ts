// `wishmeter restore <folder>`: restores a backup into empty databases at the URLs, or into new ones in DATA_DIR.

import { StartupError } from '../errors.js';
import { totalOf } from '../extras/backup/manifest.js';
import { type RestoreSpec, restore as restoreInto } from '../extras/backup/restore.js';
import { startClickHouse } from '../extras/embedded/clickhouse/start.js';
import { startRedis } from '../extras/embedded/redis.js';
import { oneFolder, withDatabases } from './both-databases.js';
import { UsageError } from './command-line.js';
import { clickhouseFolder, redisFolder } from './embedded-databases.js';
import type { Program } from './program.js';
import { progressOn } from './progress.js';
import { makeFolder } from './start/folder.js';
import { lockFolder } from './start/lock.js';

/** @throws UsageError, or StartupError, also if a `start` uses DATA_DIR */
export async function restore(program: Program<'restore'>): Promise<number> {
  const { operands, config, stdout } = program;
  const folder = oneFolder('restore', operands);
  const only = onlyOf(program.options);
  const { urls, close } = await openDatabases(program);
  try {
    await withDatabases('Not restored', { config, ...urls }, async (databases) => {
      const progress = progressOn(stdout);
      const spec = { folder, only, cluster: config.CLICKHOUSE_CLUSTER, onProgress: progress.show };
      const { manifest, keys, ended } = await restoreInto(databases, spec);
      progress.end();
      stdout.write(`Restored into ${databasesIn(config, only)}.\n`);
      const rows = only === 'redis' ? 0 : totalOf(manifest.clickhouse.rows);
      stdout.write(
        `As of ${manifest.beganAt}: ${keys} of ${keys + ended} keys and ${rows} rows, each found. ${ended} keys are left out, because they have expired since.\n`,
      );
    });
  } finally {
    await close();
  }
  return 0;
}

/** Without credentials. */
function databasesIn(config: Program<'restore'>['config'], only: RestoreSpec['only']): string {
  const { REDIS_URL, CLICKHOUSE_URL, CLICKHOUSE_DATABASE, KEY_PREFIX, DATA_DIR } = config;
  const nodes = REDIS_URL.map((url) => new URL(url)).map(
    ({ host, pathname, searchParams }) => searchParams.get('path') ?? host + pathname.replace(/^\/$/, ''),
  );
  const redis = nodes.length > 0 ? nodes.join(', ') : redisFolder(DATA_DIR);
  const clickhouse = CLICKHOUSE_URL ? new URL(CLICKHOUSE_URL).host : clickhouseFolder(DATA_DIR);
  return [
    ...(only === 'clickhouse' ? [] : [`Redis ${redis}, keys ${KEY_PREFIX}:*`]),
    ...(only === 'redis' ? [] : [`ClickHouse ${clickhouse}, database ${CLICKHOUSE_DATABASE}`]),
  ].join('; ');
}

function onlyOf({ only }: Program<'restore'>['options']): RestoreSpec['only'] {
  if (only === undefined || only === 'redis' || only === 'clickhouse') return only;
  throw new UsageError('--only is redis or clickhouse.');
}

type Urls = { readonly redisUrls: readonly string[]; readonly clickhouseUrl: string };

async function openDatabases({
  config,
  pid,
}: Program<'restore'>): Promise<{ urls: Urls; close(): Promise<void> }> {
  const { REDIS_URL, CLICKHOUSE_URL, CLICKHOUSE_CLUSTER, DATA_DIR } = config;
  if (REDIS_URL.length > 0 && CLICKHOUSE_URL !== '')
    return { urls: { redisUrls: REDIS_URL, clickhouseUrl: CLICKHOUSE_URL }, close: async () => {} };
  if (CLICKHOUSE_CLUSTER !== '' && CLICKHOUSE_URL === '')
    throw new StartupError('CLICKHOUSE_CLUSTER needs CLICKHOUSE_URL.');
  await makeFolder(DATA_DIR);
  const lock = await lockFolder(DATA_DIR, pid);
  const children: { stop(): Promise<void> }[] = [];
  const close = async () => {
    await Promise.all(children.map((child) => child.stop()));
    await lock.release();
  };
  try {
    const run = async <Child extends { readonly url: string; stop(): Promise<void> }>(
      child: Promise<Child>,
    ) => {
      children.push(await child);
      return (await child).url;
    };
    const redisUrls =
      REDIS_URL.length > 0 ? REDIS_URL : [await run(startRedis({ dir: redisFolder(DATA_DIR) }))];
    const clickhouseUrl = CLICKHOUSE_URL || (await run(startClickHouse({ dir: clickhouseFolder(DATA_DIR) })));
    return { urls: { redisUrls, clickhouseUrl }, close };
  } catch (error) {
    await close();
    throw error;
  }
}

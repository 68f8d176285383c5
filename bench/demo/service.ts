// The service that the demo talks to: a `wishmeter start` on a temp folder and free ports.

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readServiceUrl } from '../../src/extras/embedded/clickhouse/service-url.js';
import { settingsBesideOthers, startCommand } from '../servers/wishmeter.js';
import { createStorefront } from './storefront.js';

/** The process and the data folder of a demo that is open: `make sql` reads it. */
const OPEN = new URL('../../.demo', import.meta.url);

export type Service = Awaited<ReturnType<typeof startService>>;

/** @throws if it does not start */
export async function startService(env: NodeJS.ProcessEnv) {
  const database = env.CLICKHOUSE_DATABASE ?? 'wishmeter';
  const dir = await mkdtemp(join(tmpdir(), 'wishmeter-demo-'));
  const { API_KEYS: _keys, BASE_PATH: _base, ...rest } = env;
  const storefront = await createStorefront();
  const close = async () => {
    storefront.close();
    await rm(dir, { recursive: true, force: true });
  };
  const secret = async (file: string) => (await readFile(join(dir, file), 'utf8')).trim();
  try {
    const settings = { ...settingsBesideOthers(dir), ...storefront.settings, LOG_LEVEL: 'warn' };
    const { ready, stop } = await startCommand<Record<'url' | 'clickhouseUrl' | 'dashboardUrl', string>>(
      'start',
      { ...rest, ...settings },
    );
    storefront.open(ready.url);
    const writableUrl = readServiceUrl(join(dir, 'clickhouse'));
    if (writableUrl === undefined) throw new Error('The embedded ClickHouse left no address.');
    return {
      ...{ url: ready.url, clickhouseUrl: ready.clickhouseUrl, database, dir },
      key: await secret('api-key'),
      /** ClickHouse as its service's user, who may write. */
      writableUrl,
      dashboard: `${ready.dashboardUrl}/#token=${await secret('dashboard-token')}`,
      shop: storefront.origin,
      stop: () => stop().finally(close),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** @returns ends it */
export async function markAsOpen(dir: string): Promise<() => Promise<void>> {
  await writeFile(OPEN, `${process.pid} ${dir}\n`);
  return () => rm(OPEN, { force: true });
}

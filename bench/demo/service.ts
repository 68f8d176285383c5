// The service that the demo talks to: a `wishmeter start` on a temp folder and free ports.

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nodeCommand, readyOverIpc, startChild } from '../../src/extras/embedded/child.js';
import { readServiceUrl } from '../../src/extras/embedded/clickhouse/service-url.js';
import { settingsBesideOthers } from '../servers/beside-others.js';
import { createStorefront } from './storefront.js';

const MAIN = new URL('../../src/main.js', import.meta.url);
/** The process and the data folder of a demo that is open: `make sql` reads it. */
const OPEN = new URL('../../.demo', import.meta.url);
/** Longer than an orderly stop takes. */
const STOP_MS = 30_000;

/** The message of `start` to its parent process. */
interface Ready {
  readonly ready: true;
  readonly url: string;
  readonly clickhouseUrl: string;
  readonly dashboardUrl: string;
}

export interface Service {
  readonly url: string;
  readonly key: string;
  readonly clickhouseUrl: string;
  readonly database: string;
  /** Its data folder. */
  readonly dir: string;
  /** ClickHouse as its service's user, who may write. */
  readonly writableUrl: string;
  /** The dashboard with its token. */
  readonly dashboard: string;
  /** The shop's pages. */
  readonly shop: string;
  stop(): Promise<void>;
}

/** @throws if it does not start */
export async function startService(env: NodeJS.ProcessEnv): Promise<Service> {
  const database = env.CLICKHOUSE_DATABASE ?? 'wishmeter';
  const dir = await mkdtemp(join(tmpdir(), 'wishmeter-demo-'));
  const { API_KEYS: _keys, BASE_PATH: _base, ...rest } = env;
  const storefront = await createStorefront();
  const settings = {
    ...settingsBesideOthers(dir),
    ...storefront.settings,
    LOG_LEVEL: 'warn',
  };
  try {
    const child = await startChild<Ready>({
      name: '`wishmeter start`',
      command: () => nodeCommand(MAIN, ['start'], { ...rest, ...settings }),
      ready: readyOverIpc,
      ipc: true,
      output: 'tail',
      restart: false,
      stopMs: STOP_MS,
    });
    const key = (await readFile(join(dir, 'api-key'), 'utf8')).trim();
    storefront.open(child.ready.url);
    const stop = async () => {
      storefront.close();
      await child.stop();
      await rm(dir, { recursive: true, force: true });
    };
    const token = (await readFile(join(dir, 'dashboard-token'), 'utf8')).trim();
    const { dashboardUrl } = child.ready;
    const writableUrl = readServiceUrl(join(dir, 'clickhouse'));
    if (writableUrl === undefined) throw new Error('The embedded ClickHouse left no address.');
    const pages = { dashboard: `${dashboardUrl}/#token=${token}`, shop: storefront.origin };
    return { ...child.ready, ...pages, key, database, dir, writableUrl, stop };
  } catch (error) {
    storefront.close();
    await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

/** @returns ends it */
export async function markAsOpen(dir: string): Promise<() => Promise<void>> {
  await writeFile(OPEN, `${process.pid} ${dir}\n`);
  return () => rm(OPEN, { force: true });
}

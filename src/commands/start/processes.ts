// Starts the processes of `start`, in this order:
//
//   ports, key ──▶ redis ──────────┬──▶ serve × WORKERS
//              └─▶ clickhouse ─────┴──▶ flush ──▶ dashboard, deliver
//
// If Redis is empty, serve starts after flush, which fails if ClickHouse shows that Redis has lost its data.

import type { ChildProcess } from 'node:child_process';
import { ANALYST_TABLES } from '../../clickhouse/analyst-tables.js';
import { SETTINGS } from '../../config.js';
import { StartupError } from '../../errors.js';
import { nodeCommand, readyOverIpc, startChild } from '../../extras/embedded/child.js';
import { forgetServiceUrl } from '../../extras/embedded/clickhouse/service-url.js';
import { startClickHouse } from '../../extras/embedded/clickhouse/start.js';
import { asDashboard } from '../../extras/embedded/clickhouse/users.js';
import { startRedis } from '../../extras/embedded/redis.js';
import { holdsDeployment } from '../../redis/deployment.js';
import { createKeys } from '../../redis/keys.js';
import { COMMAND_LINES, type CommandName, type ConfigOf } from '../command-line.js';
import { checkLogins } from '../dashboard.js';
import { clickhouseFolder, redisFolder } from '../embedded-databases.js';
import type { Environment } from '../program.js';
import { newKey, ownApiKey, ownDashboardToken } from './api-key.js';
import type { Children } from './children.js';
import { checkPorts } from './ports.js';
import { Relay } from './relay.js';
import type { ShutdownStep } from './shutdown.js';

const MAIN = new URL('../../main.js', import.meta.url);

/** Milliseconds from SIGTERM to SIGKILL, longer than `deliver` waits for an answer and `flush` for an insert. */
const STOP_MS = 17_000;

type StartConfig = ConfigOf<'start'>;

/** A child that is restarted gets its port again. */
interface Listening {
  readonly ready: true;
  readonly port: number;
}

export function stopOrder({ DRAIN_MS }: StartConfig): readonly Omit<ShutdownStep, 'run'>[] {
  return [
    { name: 'serve', withinMs: DRAIN_MS + STOP_MS + 1_000 },
    { name: 'dashboard', withinMs: STOP_MS + 1_000 },
    { name: 'flush', withinMs: STOP_MS + 1_000 },
    { name: 'deliver', withinMs: STOP_MS + 1_000 },
    { name: 'clickhouse', withinMs: 11_000 },
    { name: 'redis', withinMs: 11_000 },
  ];
}

export interface Running {
  readonly port: number;
  readonly key: string | undefined;
  readonly clickhouseUrl: string;
  readonly clickhousePort: number | undefined;
  readonly dashboardPort: number;
  readonly dashboardToken: string;
}

/** @throws StartupError of the first process that fails; others may be running */
export async function startProcesses(
  config: StartConfig,
  env: Environment,
  children: Children,
): Promise<Running> {
  const { HOST, PORT, DATA_DIR, CLICKHOUSE_URL, CLICKHOUSE_PORT, CLICKHOUSE_CLUSTER } = config;
  if (CLICKHOUSE_CLUSTER && !CLICKHOUSE_URL)
    throw new StartupError(
      'CLICKHOUSE_CLUSTER needs CLICKHOUSE_URL: the embedded ClickHouse is one server. Set both, or neither.',
    );
  await checkPorts([
    { host: HOST, port: PORT, setting: 'PORT' },
    { host: HOST, port: config.DASHBOARD_PORT, setting: 'DASHBOARD_PORT' },
    ...(CLICKHOUSE_URL ? [] : [{ host: '127.0.0.1', port: CLICKHOUSE_PORT, setting: 'CLICKHOUSE_PORT' }]),
  ]);
  const key = config.API_KEYS.length > 0 ? undefined : await ownApiKey(DATA_DIR);
  const dashboardToken = config.DASHBOARD_TOKEN || (await ownDashboardToken(DATA_DIR));
  // In memory only: each start makes another.
  const visitorsKey = config.DASHBOARD_VISITORS === 'on' ? config.DASHBOARD_API_KEY || newKey() : '';
  const ofVisitors = (port: number) => ({
    DASHBOARD_API_URL: ownUrl(HOST, port) + config.BASE_PATH,
    DASHBOARD_API_KEY: visitorsKey,
  });
  checkLogins({ ...config, DASHBOARD_TOKEN: dashboardToken, ...ofVisitors(PORT) });

  const redisUrl =
    config.REDIS_URL.length > 0
      ? Promise.resolve(config.REDIS_URL.join(','))
      : children
          .start('redis', (onState) =>
            startRedis({ dir: redisFolder(DATA_DIR), fsync: config.REDIS_FSYNC, onState }),
          )
          .then(({ url }) => url);
  forgetServiceUrl(clickhouseFolder(DATA_DIR)); // each start has a new password
  const clickhouseUrl = CLICKHOUSE_URL
    ? Promise.resolve(CLICKHOUSE_URL)
    : children
        .start('clickhouse', (onState) =>
          startClickHouse({
            dir: clickhouseFolder(DATA_DIR),
            readable: { database: config.CLICKHOUSE_DATABASE, tables: ANALYST_TABLES },
            port: CLICKHOUSE_PORT,
            analystSeconds: config.ANALYST_MAX_SECONDS,
            onState,
          }),
        )
        .then(({ url }) => url);

  const own = (
    name: string,
    command: CommandName,
    settings: (last: Listening | undefined) => Environment,
    onReady?: (child: ChildProcess) => void,
  ) =>
    children.start(name, (onState) =>
      startChild<Listening>({
        name: `wishmeter ${command}`,
        command: (last) =>
          nodeCommand(MAIN, [command], environmentOf(command, { ...env, ...settings(last) })),
        ready: async (child, ended) => {
          const ready = await readyOverIpc<Listening>(child, ended);
          onReady?.(child);
          return ready;
        },
        ipc: true,
        stopMs: command === 'serve' ? config.DRAIN_MS + STOP_MS : STOP_MS,
        onState,
      }),
    );
  const flushing = Promise.all([redisUrl, clickhouseUrl]).then(([redis, clickhouse]) =>
    own('flush', 'flush', () => ({ REDIS_URL: redis, CLICKHOUSE_URL: clickhouse })),
  );
  const serving = redisUrl.then(async (url) => {
    const more = { REDIS_URL: url, API_KEYS: [key ?? env.API_KEYS, visitorsKey].filter(Boolean).join() };
    if (await isNew(url, config)) await flushing;
    const relay = new Relay();
    const worker = (n: number, port: number) =>
      own(
        `serve ${n}`,
        'serve',
        (last) => ({ ...more, PORT: String(last?.port ?? port) }),
        (child) => relay.join(`${n}`, child),
      );
    const first = worker(1, PORT);
    // With port 0, the first worker chooses the port that all workers share.
    const port = PORT || (await first).ready.port;
    await Promise.all([first, ...Array.from({ length: config.WORKERS - 1 }, (_, i) => worker(i + 2, port))]);
    return port;
  });
  // The dashboard needs views that `flush` creates.
  const showing = Promise.all([clickhouseUrl, redisUrl, flushing, PORT || serving]).then(
    ([url, redis, , port]) =>
      own('dashboard', 'dashboard', (last) => ({
        PORT: String(port),
        REDIS_URL: redis,
        CLICKHOUSE_URL: CLICKHOUSE_URL ? url : asDashboard(url),
        DASHBOARD_PORT: String(last?.port ?? config.DASHBOARD_PORT),
        DASHBOARD_TOKEN: dashboardToken,
        ...ofVisitors(port),
      })),
  );
  const delivering = Promise.all([redisUrl, flushing]).then(([redis]) =>
    own('deliver', 'deliver', () => ({ REDIS_URL: redis })),
  );
  const [port, shown] = await Promise.all([serving, showing, delivering]);

  const url = await clickhouseUrl;
  return {
    port,
    key,
    clickhouseUrl: url,
    clickhousePort: CLICKHOUSE_URL ? undefined : Number(new URL(url).port),
    dashboardPort: shown.ready.port,
    dashboardToken,
  };
}

/** `localhost` might lead to another program, at the other of its two addresses, which would get the key. */
function ownUrl(host: string, port: number): string {
  const address = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host;
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`;
}

/** @returns `env` without the settings of other commands, some of which are secrets */
function environmentOf(command: CommandName, env: Environment): Environment {
  // Every process keeps DATA_DIR: it shows in /proc which `start` the process belongs to.
  const read: readonly string[] = [...COMMAND_LINES[command].settings, 'DATA_DIR'];
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => read.includes(name) || !Object.hasOwn(SETTINGS, name)),
  );
}

/** @returns false also if Redis doesn't answer, which `serve` reports */
async function isNew(redisUrl: string, { KEY_PREFIX }: StartConfig): Promise<boolean> {
  try {
    return !(await holdsDeployment(redisUrl.split(','), createKeys(KEY_PREFIX)));
  } catch {
    return false;
  }
}

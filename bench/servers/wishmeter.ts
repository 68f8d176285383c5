// Commands of wishmeter as they run in production. Only logging is off, as it is for the peers.

import { bareEnvironment, nodeCommand, readyOverIpc, startChild } from '../../src/extras/embedded/child.js';
import { KEY } from '../traffic/requests.js';

/** This tree: dist/bench/servers/ -> the project's root. */
export const ROOT = new URL('../../../', import.meta.url);
/** Longer than an orderly stop takes. */
const STOP_MS = 30_000;

/** Settings of `serve` and `flush`. Settings in the caller's environment are not passed on. */
export function wishmeterEnv(redisUrl: string, clickhouseUrl?: string): NodeJS.ProcessEnv {
  return {
    ...bareEnvironment(),
    HOST: '127.0.0.1',
    REDIS_URL: redisUrl,
    API_KEYS: KEY,
    // One address sends the load of a whole shop.
    ANONYMOUS_RATE_LIMIT: '0',
    LOG_LEVEL: 'error',
    ...(clickhouseUrl === undefined ? {} : { CLICKHOUSE_URL: clickhouseUrl }),
  };
}

/** Settings of a `start` that runs beside others: its own folder, free ports, and no drain when it stops. */
export function settingsBesideOthers(dir: string) {
  const ports = { PORT: '0', CLICKHOUSE_PORT: '0', DASHBOARD_PORT: '0' };
  return { DATA_DIR: dir, HOST: '127.0.0.1', ...ports, DRAIN_MS: '0' };
}

/** Starts `wishmeter <command>` and resolves when it is ready. @param root another tree that has it */
export function startCommand<Ready = { readonly port: number }>(
  command: 'serve' | 'flush' | 'start',
  env: NodeJS.ProcessEnv,
  root = ROOT,
) {
  return startChild({
    name: `wishmeter ${command}`,
    command: () => nodeCommand(new URL('dist/src/main.js', root), [command], env),
    ready: readyOverIpc<Ready & { ready: true }>,
    ...{ ipc: true, output: 'tail', restart: false, stopMs: STOP_MS },
  });
}

// wishmeter as it runs in production: `serve`, and `flush` with a ClickHouse if a case wants them. Only logging is off, as
// it is for the peers.

import { join } from 'node:path';
import { type Command, nodeCommand, readyOverIpc, startChild } from '../../src/extras/embedded/child.js';
import { startClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import type { EmbeddedRedis } from '../../src/extras/embedded/redis.js';
import { KEY } from '../traffic/requests.js';
import { connectTo } from './redis.js';
import { pidsOf, type Target, type TargetSpec } from './target.js';

/** This tree: dist/bench/servers/ -> the project's root. */
export const ROOT = new URL('../../../', import.meta.url);

interface Stoppable {
  stop(): Promise<void>;
}

/**
 * @param masters of a cluster, or one Redis; they are stopped with the rest
 * @param after runs when all processes have stopped
 */
export async function startWishmeter(
  { dir, flushes = false, isUnlogged = false, root = ROOT }: TargetSpec,
  masters: readonly EmbeddedRedis[],
  after: () => Promise<void>,
): Promise<Target> {
  const running: Stoppable[] = [...masters];
  const redis = { url: masters.map(({ url }) => url).join() };
  const stop = async () => {
    for (const one of running.toReversed()) await one.stop();
    await after();
  };
  const started = <T extends Stoppable>(one: T): T => {
    running.push(one);
    return one;
  };
  try {
    const clickhouse = flushes
      ? started(await startClickHouse({ dir: join(dir, 'clickhouse'), restart: false }))
      : undefined;
    const flusher =
      clickhouse && started(await startCommand('flush', wishmeterEnv(redis, clickhouse.url), root));
    const env = { ...wishmeterEnv(redis), PORT: '0', ...(isUnlogged ? { VISIT_LOG: 'off' } : {}) };
    const serve = started(await startCommand<{ port: number }>('serve', env, root));
    const clients = masters.map(connectTo);
    started({
      stop: async () => {
        for (const client of clients) client.disconnect();
      },
    });
    return {
      port: serve.ready.port,
      pids: {
        server: pidsOf(serve),
        redis: pidsOf(...masters),
        ...(clickhouse ? { flusher: pidsOf(flusher), clickhouse: pidsOf(clickhouse) } : {}),
      },
      ...(clients[0] ? { redis: clients[0] } : {}),
      masters: clients,
      ...(clickhouse ? { clickhouseUrl: clickhouse.url } : {}),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Settings of every wishmeter process of the benchmark. Settings in the caller's environment are not passed on. */
export function wishmeterEnv(redis: Pick<EmbeddedRedis, 'url'>, clickhouseUrl?: string): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR } = process.env;
  return {
    ...{ PATH, HOME, TMPDIR },
    HOST: '127.0.0.1',
    REDIS_URL: redis.url,
    API_KEYS: KEY,
    // One address sends the load of a whole shop.
    ANONYMOUS_RATE_LIMIT: '0',
    LOG_LEVEL: 'error',
    ...(clickhouseUrl === undefined ? {} : { CLICKHOUSE_URL: clickhouseUrl }),
  };
}

/** Starts `wishmeter <command>` and resolves when it is ready. */
export function startCommand<Ready = object>(
  command: 'serve' | 'flush',
  env: NodeJS.ProcessEnv,
  root = ROOT,
) {
  const run: Command = nodeCommand(new URL('dist/src/main.js', root), [command], env);
  return startChild<Ready & { ready: true }>({
    name: `wishmeter ${command}`,
    command: () => run,
    ready: readyOverIpc<Ready & { ready: true }>,
    ipc: true,
    output: 'tail',
    restart: false,
  });
}

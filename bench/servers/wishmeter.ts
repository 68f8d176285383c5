// wishmeter as it is run in production: `serve` processes on one port, a `flush` where events are wanted, with
// everything on that makes them correct. Only the log is off, as it is for the peers.

import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { type Command, nodeCommand, readyOverIpc, startChild } from '../../src/embedded/child.js';
import { startClickHouse } from '../../src/embedded/clickhouse/start.js';
import type { EmbeddedRedis } from '../../src/embedded/redis.js';
import { KEY } from '../traffic/requests.js';
import { freePort } from './ports.js';
import { connectTo, startReplica } from './redis.js';
import { pidsOf, type Target, type TargetSpec, type Worker } from './target.js';

/** This tree: dist/bench/servers/ -> the project's root. */
export const ROOT = new URL('../../../', import.meta.url);

interface Stoppable {
  stop(): Promise<void>;
}

/**
 * @param masters of a cluster, or one Redis; they are stopped with the rest
 * @param after runs when all is stopped
 */
export async function startWishmeter(
  {
    dir,
    masters: clustered,
    workers = 1,
    flushes = false,
    replicas = 0,
    isUnlogged = false,
    root = ROOT,
    nodeArgs = [],
  }: TargetSpec,
  masters: readonly EmbeddedRedis[],
  after: () => Promise<void>,
): Promise<Target> {
  const running: Stoppable[] = [...masters];
  // Several URLs are a cluster; one of a single master has its one twice.
  const urls = masters.map(({ url }) => url);
  const redis = { url: (clustered === 1 ? [...urls, ...urls] : urls).join() };
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
    const following = [];
    for (let n = 0; n < replicas; n++)
      following.push(started(await startReplica(join(dir, `replica${n}`), masters[0] as EmbeddedRedis)));
    const env = {
      ...wishmeterEnv(redis),
      PORT: String(workers === 1 ? 0 : await freePort()),
      ...(replicas > 0 ? { REDIS_REPLICAS: String(replicas) } : {}),
      ...(isUnlogged ? { VISIT_LOG: 'off' } : {}),
    };
    const serving: Worker[] = [];
    for (let n = 0; n < workers; n++)
      serving.push(started(await startCommand<{ port: number }>('serve', env, root, nodeArgs)));
    const clients = masters.map(connectTo);
    const disconnect = async () => {
      for (const client of clients) client.disconnect();
    };
    running.push({ stop: disconnect });
    const [client] = clients as [Redis, ...Redis[]];
    return {
      port: serving[0]?.ready.port ?? 0,
      pids: {
        server: pidsOf(...serving),
        redis: pidsOf(...masters, ...following),
        ...(clickhouse ? { flusher: pidsOf(flusher), clickhouse: pidsOf(clickhouse) } : {}),
      },
      redis: client,
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
    // One address brings the load of a whole shop.
    ANONYMOUS_RATE_LIMIT: '0',
    LOG_LEVEL: 'error',
    ...(clickhouseUrl === undefined ? {} : { CLICKHOUSE_URL: clickhouseUrl }),
  };
}

/** Starts `wishmeter <command>` and resolves when it is ready. */
export function startCommand<Ready = object>(
  command: 'serve' | 'flush' | 'deliver',
  env: NodeJS.ProcessEnv,
  root = ROOT,
  nodeArgs: readonly string[] = [],
) {
  const { file, args } = nodeCommand(new URL('dist/src/main.js', root), [command], env);
  const run: Command = { file, args: [...nodeArgs, ...args], env };
  return startChild<Ready & { ready: true }>({
    name: `wishmeter ${command}`,
    command: () => run,
    ready: readyOverIpc<Ready & { ready: true }>,
    ipc: true,
    output: 'tail',
    restart: false,
  });
}

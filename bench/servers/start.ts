// Starts a server with a fresh Redis of its own, in a folder that is removed with it.

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type Child, nodeCommand, readyOverIpc, startChild } from '../../src/extras/embedded/child.js';
import { startClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import { startNginx } from '../peers/nginx.js';
import { startWebdis } from '../peers/webdis.js';
import { startMasters } from './cluster.js';
import { startBenchRedis } from './redis.js';
import { pidsOf, type Target, type TargetSpec } from './target.js';
import { startCommand, wishmeterEnv } from './wishmeter.js';

interface Stoppable {
  stop(): Promise<void>;
}

export async function startTarget(spec: TargetSpec): Promise<Target> {
  const { dir, flushes, root } = spec;
  await mkdir(dir, { recursive: true });
  const running: Stoppable[] = [{ stop: () => rm(dir, { recursive: true, force: true }) }];
  const stop = async () => {
    for (const one of running.toReversed()) await one.stop();
  };
  const started = async <T extends Stoppable>(starting: Promise<T>): Promise<T> => {
    const one = await starting;
    running.push(one);
    return one;
  };
  try {
    const masters = await startRedises(spec);
    running.push(...masters);
    const redisUrl = masters.map(({ url }) => url).join();
    const clickhouse = flushes
      ? await started(startClickHouse({ dir: join(dir, 'clickhouse'), restart: false }))
      : undefined;
    const flusher =
      clickhouse && (await started(startCommand('flush', wishmeterEnv(redisUrl, clickhouse.url), root)));
    const worker = await started(startServer(spec, redisUrl));
    const clients = masters.map(({ url }) => new Redis(url));
    running.push(...clients.map((client) => ({ stop: async () => client.disconnect() })));
    return {
      port: worker.ready.port,
      pids: {
        ...{ server: pidsOf(worker), redis: pidsOf(...masters) },
        ...(clickhouse && flusher ? { flusher: pidsOf(flusher), clickhouse: pidsOf(clickhouse) } : {}),
      },
      ...{ masters: clients, redis: clients[0], clickhouseUrl: clickhouse?.url, stop },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startRedises({ server, dir, masters }: TargetSpec) {
  if (server === 'bare') return [];
  return masters ? await startMasters(dir, masters) : [await startBenchRedis(join(dir, 'redis'))];
}

function startServer(spec: TargetSpec, redisUrl: string): Promise<Child<{ readonly port: number }>> {
  const { server, dir, isUnlogged, root } = spec;
  if (server === 'webdis') return startWebdis(dir, redisUrl);
  if (server === 'nginx') return startNginx(dir, redisUrl);
  if (server === 'wishmeter') {
    const log = isUnlogged ? { VISIT_LOG: 'off' } : {};
    return startCommand('serve', { ...wishmeterEnv(redisUrl), PORT: '0', ...log }, root);
  }
  const env = { ...process.env, NODE_ENV: 'production', REDIS_URL: redisUrl };
  return startChild({
    name: server,
    command: () => nodeCommand(new URL(`../peers/${server}.js`, import.meta.url), [], env),
    ...{ ready: readyOverIpc<{ ready: true; port: number }>, ipc: true },
    ...{ output: 'tail', restart: false, stopMs: 500 },
  });
}

// Starts a server with a fresh Redis of its own, in a folder that is removed with it.

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeCommand, readyOverIpc, startChild } from '../../src/extras/embedded/child.js';
import { startNginx } from '../peers/nginx.js';
import { startWebdis } from '../peers/webdis.js';
import { startMasters } from './cluster.js';
import { connectTo, startBenchRedis } from './redis.js';
import { pidsOf, type Target, type TargetSpec, type Worker } from './target.js';
import { startWishmeter } from './wishmeter.js';

export async function startTarget(spec: TargetSpec): Promise<Target> {
  const { server, dir } = spec;
  await mkdir(dir, { recursive: true });
  const remove = () => rm(dir, { recursive: true, force: true });
  if (server === 'bare') {
    const worker = await startPeer('bare');
    return { port: worker.ready.port, pids: { server: pidsOf(worker) }, stop: () => stopAll(worker, remove) };
  }
  if (server === 'wishmeter') {
    const masters = spec.masters
      ? await startMasters(dir, spec.masters)
      : [await startBenchRedis(join(dir, 'redis'))];
    return await startWishmeter(spec, masters, remove);
  }
  const redis = await startBenchRedis(join(dir, 'redis'));
  try {
    const worker = await startBefore(redis.url, server, dir);
    const client = connectTo(redis);
    return {
      port: worker.ready.port,
      pids: { server: pidsOf(worker), redis: pidsOf(redis) },
      redis: client,
      masters: [client],
      async stop() {
        client.disconnect();
        await stopAll(worker, () => redis.stop(), remove);
      },
    };
  } catch (error) {
    await redis.stop();
    throw error;
  }
}

function startBefore(
  redisUrl: string,
  server: Exclude<TargetSpec['server'], 'bare' | 'wishmeter'>,
  dir: string,
): Promise<Worker> {
  if (server === 'webdis') return startWebdis(dir, redisUrl);
  if (server === 'nginx') return startNginx(dir, redisUrl);
  return startPeer(server, { REDIS_URL: redisUrl });
}

function startPeer(name: 'bare' | 'floor' | 'fastify', env: NodeJS.ProcessEnv = {}): Promise<Worker> {
  const command = () =>
    nodeCommand(new URL(`../peers/${name}.js`, import.meta.url), [], {
      ...process.env,
      NODE_ENV: 'production',
      ...env,
    });
  return startChild({
    ...{ name, command, ready: readyOverIpc<{ ready: true; port: number }>, ipc: true },
    ...{ output: 'tail', restart: false, stopMs: 500 },
  });
}

async function stopAll(worker: Worker, ...rest: readonly (() => Promise<void>)[]): Promise<void> {
  await worker.stop();
  for (const stop of rest) await stop();
}

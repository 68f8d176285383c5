// The service as processes that the test kills, freezes and restarts, with proxies in front of both databases
// that inject faults.

import { join } from 'node:path';
import { freePort } from '../../bench/servers/ports.js';
import { startClickHouse } from '../../src/extras/embedded/clickhouse/start.js';
import { startRedis } from '../../src/extras/embedded/redis.js';
import { MAIN, type Running, spawnWishmeter, tempDir, until } from '../cli/wishmeter.js';
import { putMigrated } from '../harness/clickhouse.js';
import { type Proxy as Line, startProxy } from '../harness/proxy.js';
import type { Scope } from '../harness/redis.js';
import { type ClickHouseProxy, startClickHouseProxy } from './clickhouse-proxy.js';
import { Load, type LoadSpec } from './load.js';
import { type Book, type Places, reconcile } from './reconcile.js';

export const KEY = 'sk_faults_0123456789abcdef';

export const FULL = process.env.FAULTS === 'full';

/** The seed of the random moments of a fault test; SEED=<n> repeats the moments of another run. */
export const SEED = Number(process.env.SEED || Math.floor(Math.random() * 1e6));

/** REDIS_TIMEOUT_MS for tests that allow no 503: the longest value, because this machine may stall. */
export const MOST_PATIENT_MS = '900';

export type RedisPart = Part & { url(): string };

export interface Part {
  readonly name: string;
  readonly pid: number | undefined;
  /** Resolves when the part serves. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface Service extends Places {
  readonly redis: Part;
  readonly clickhouse: Part;
  readonly workers: readonly Part[];
  readonly flush: Part;
  readonly dir: string;
  /** A proxy to the single Redis; a cluster has none, because its nodes give clients their own addresses. */
  readonly redisLine: Line | undefined;
  readonly clickhouseLine: ClickHouseProxy;
  /** The lines that `serve` and `flush` have logged at warn and above. */
  logs(): string[];
  load(spec?: Partial<LoadSpec>): Load;
  /** Waits until no work is under way. @returns faults, in words */
  faultsOf(loads: readonly Book[]): Promise<string[]>;
}

export async function openService(
  t: Scope,
  env: Readonly<Record<string, string>>,
  cluster?: RedisPart,
): Promise<Service> {
  const dir = await tempDir(t);
  const redis =
    cluster ??
    databasePart('redis', () => startRedis({ dir: join(dir, 'redis'), restart: false, fsync: 'always' }));
  let clickhousePort = 0;
  const clickhouse = databasePart('clickhouse', async () => {
    const spec = { dir: join(dir, 'clickhouse'), port: clickhousePort, restart: false };
    const server = await startClickHouse(spec);
    clickhousePort = Number(new URL(server.url).port);
    return server;
  });
  await putMigrated(join(dir, 'clickhouse'), 'wishmeter');
  await Promise.all([redis.start(), clickhouse.start()]);
  const redisUrl = redis.url();
  const clickhouseUrl = clickhouse.url();
  const port = await freePort();
  const redisLine = cluster === undefined ? await startProxy(t, redisUrl) : undefined;
  const clickhouseLine = await startClickHouseProxy(t, clickhouseUrl);
  const settings = {
    REDIS_URL: redisLine?.url ?? redisUrl,
    CLICKHOUSE_URL: clickhouseLine.url,
    API_KEYS: KEY,
    HOST: '127.0.0.1',
    PORT: String(port),
    FLUSH_INTERVAL_MS: '200',
    DATA_DIR: dir,
    ...env,
  };
  const runs: Running[] = [];
  const workers = [1, 2].map((i) => programPart(`serve ${i}`, 'serve', settings, runs));
  const flush = programPart('flush', 'flush', settings, runs);
  const all = [...workers, flush, clickhouse, redis];
  const url = `http://127.0.0.1:${port}`;
  const places = { url, key: KEY, redisUrl, clickhouseUrl };
  t.teardown(async () => {
    for (const part of all) await part.stop();
  });
  await flush.start();
  await Promise.all(workers.map((worker) => worker.start()));
  return {
    ...{ ...places, dir, redis, redisLine, clickhouse, clickhouseLine, workers, flush },
    logs: () =>
      runs.flatMap((run) => run.stdout().split('\n')).filter((line) => /^\{"level":[456]0/.test(line)),
    load: (changes) => new Load({ port, key: KEY, seed: 1, connections: 12, restMs: 40, ...changes }),
    faultsOf: (loads) => reconcile(loads, places),
  };
}

interface Database {
  readonly url: string;
  readonly pid: number | undefined;
  stop(): Promise<void>;
}

function databasePart(name: string, start: () => Promise<Database>): RedisPart {
  let server: Database | undefined;
  return {
    name,
    get pid() {
      return server?.pid;
    },
    url: () => server?.url ?? '',
    async start() {
      server = await start();
    },
    async stop() {
      thaw(server?.pid);
      await server?.stop();
    },
  };
}

const READY = {
  serve: 'serving',
  flush: 'flushing',
  deliver: 'delivering',
  dashboard: 'dashboard',
};

/** `wishmeter <command>`, not started yet. @param main returns the main.js of another version, at each start */
export function programPart(
  name: string,
  command: keyof typeof READY,
  env: NodeJS.ProcessEnv,
  runs: Running[] = [],
  main: () => string = () => MAIN,
): Part {
  let running: Running | undefined;
  let ended = true;
  return {
    name,
    get pid() {
      return ended ? undefined : running?.child.pid;
    },
    async start() {
      const run = spawnWishmeter({ main: main(), args: [command], env: { DRAIN_MS: '0', ...env } });
      runs.push(run);
      running = run;
      ended = false;
      void run.ended.then(() => {
        if (running === run) ended = true;
      });
      await run.logged(READY[command]);
    },
    async stop() {
      if (ended || running === undefined) return;
      thaw(running.child.pid);
      running.child.kill('SIGTERM');
      await running.ended;
    },
  };
}

function thaw(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // the process is gone
  }
}

export function signal(part: Part, name: NodeJS.Signals): void {
  if (part.pid === undefined) throw new Error(`${part.name} is not there to get ${name}`);
  process.kill(part.pid, name);
}

/** kill -9: resolves when the process is gone. */
export async function kill(part: Part): Promise<void> {
  signal(part, 'SIGKILL');
  await until(`${part.name} is gone`, () => part.pid === undefined);
}

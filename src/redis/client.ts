// Connects to Redis or Redis Cluster without ioredis's own retries and timers: see sender.ts, deadline.ts, silence.ts.
//
// `maxRetriesPerRequest: 0` rejects commands in flight when a connection closes; `autoResendUnfulfilledCommands: false`
// alone would leave them pending for ever (https://github.com/redis/ioredis/issues/2193).

import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { type Backoff, backoffMs } from '../backoff.js';
import { AwayError, StartupError } from '../errors.js';
import { isPassing } from './failures.js';
import { cutSilentConnections } from './silence.js';

// ioredis's subclass of String makes V8 look up String's methods in a dictionary (2 % of a visit's CPU), until a String
// object has been used often.
const text = Object('') as { trim(): string };
for (let uses = 0; uses < 1_000; uses++) text.trim();

export type RedisClient = Redis | Cluster;

type Options = Omit<RedisOptions, 'replyMapping'>;

export interface RedisConnection {
  /** One server, or some nodes of a cluster. */
  readonly urls: readonly string[];
  readonly name: string;
  /** A connection without a reply for so long is silent, and cut within twice that. */
  readonly timeoutMs: number;
}

const RECONNECT: Backoff = { firstMs: 40, longestMs: 500 };
const SLOTS_TIMEOUT_MS = 2_000;
/** When a process starts, a cluster may still form or fail over. */
const READY_TIMEOUT_MS = 5_000;
const POLL_MS = 5;

function commonOptions(connection: RedisConnection): Options {
  return {
    connectionName: connection.name,
    connectTimeout: 2_000,
    maxLoadingRetryTime: 200,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    lazyConnect: true,
    retryStrategy: (times) => backoffMs(times, RECONNECT),
  };
}

function endpoint(url: string): Options {
  const { protocol, hostname, port, username, password, pathname, searchParams } = new URL(url);
  // A unix socket (embedded Redis): redis://localhost/?path=/run/redis.sock
  const path = searchParams.get('path');
  return {
    ...(path ? { path } : { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) }),
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
    ...(pathname.length > 1 ? { db: Number(pathname.slice(1)) } : {}),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  };
}

function createServer(connection: RedisConnection, url: string): Redis {
  return new Redis({ ...commonOptions(connection), ...endpoint(url) });
}

function createCluster(connection: RedisConnection): Cluster {
  const {
    host: _host,
    port: _port,
    path: _path,
    db: _db,
    ...shared
  } = endpoint(connection.urls[0] as string);
  const nodes = connection.urls.map((url) => {
    const { host = 'localhost', port = 6379 } = endpoint(url) as { host?: string; port?: number };
    return { host, port };
  });
  const cluster = new Cluster(nodes, {
    redisOptions: { ...commonOptions(connection), ...shared },
    ...(shared.tls ? { dnsLookup: keepName } : {}),
    enableOfflineQueue: false,
    lazyConnect: true,
    slotsRefreshTimeout: Math.min(SLOTS_TIMEOUT_MS, connection.timeoutMs),
    // Follow two redirections immediately. Retries after TRYAGAIN can't be turned off; they affect only reads.
    maxRedirections: 2,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 0,
    clusterRetryStrategy: (times) => backoffMs(times, RECONNECT),
  });
  // ioredis connects to a node at its first command, and fails others until it is ready: connect early.
  for (const event of ['ready', 'refresh'])
    cluster.on(event, () => {
      if (cluster.status === 'ready') void connectMasters(cluster);
    });
  return cluster;
}

/** Certificates name hosts, but ioredis would connect to addresses. */
const keepName: ClusterOptions['dnsLookup'] = (name, callback) => callback(null, name);

async function connectMasters(cluster: Cluster): Promise<void> {
  const waiting = cluster.nodes('master').filter(({ status }) => status === 'wait');
  await Promise.allSettled(waiting.map((node) => node.connect()));
}

/**
 * Connects to each server first, because ioredis does not report why a cluster can't be used.
 * @throws the connection's error; StartupError if a cluster is not ready in time
 */
export async function connectRedis(
  connection: RedisConnection,
  onError: (error: Error) => void,
): Promise<RedisClient> {
  const [url, ...others] = connection.urls;
  if (url === undefined) throw new Error('no Redis URL');
  const server =
    others.length === 0
      ? await open(createServer(connection, url), connection, onError)
      : await anyOf(connection.urls.map((one) => open(createServer(connection, one), connection, onError)));
  const isNode = await isNodeOfCluster(server).catch((error) => {
    server.disconnect();
    throw error;
  });
  if (!isNode && others.length === 0) return server;
  server.disconnect();
  if (!isNode)
    throw new StartupError(
      'REDIS_URL names several servers, and they are no Redis Cluster: set one of them.',
    );
  const cluster = await open(createCluster(connection), connection, onError);
  await untilConnected(cluster);
  return cluster;
}

async function untilConnected(cluster: Cluster): Promise<void> {
  await connectMasters(cluster);
  for (const node of cluster.nodes('master'))
    while (node.status !== 'ready' && node.status !== 'end') await sleep(POLL_MS);
}

async function anyOf(opening: readonly Promise<Redis>[]): Promise<Redis> {
  const first = await Promise.any(opening).catch(({ errors }: AggregateError) => {
    throw errors.find((error) => !isPassing(error)) ?? errors[0];
  });
  for (const one of opening)
    one.then(
      (server) => server !== first && server.disconnect(),
      () => {},
    );
  return first;
}

async function isNodeOfCluster(server: Redis): Promise<boolean> {
  return /^cluster_enabled:1/m.test(await server.info('cluster'));
}

async function open<Client extends RedisClient>(
  client: Client,
  connection: RedisConnection,
  onError: (error: Error) => void,
): Promise<Client> {
  let reason: Error | undefined;
  client.on('node error', (error: Error) => {
    reason = error;
  });
  client.on('error', (error: Error) => {
    // The cause of "Failed to refresh slots cache." is a node's reply or its connection's error.
    const { lastNodeError } = error as { lastNodeError?: Error | null };
    const ofNode = lastNodeError && !isPassing(lastNodeError) ? lastNodeError : reason;
    if (lastNodeError !== undefined) error.cause ??= ofNode ?? lastNodeError ?? undefined;
    reason = lastNodeError === undefined ? error : (ofNode ?? lastNodeError ?? error);
    onError(error);
  });
  cutSilentConnections(client, connection.timeoutMs);
  try {
    await connected(client, () => reason);
    return client;
  } catch (error) {
    client.disconnect();
    throw error instanceof StartupError ? error : (reason ?? error);
  }
}

/** Has a time-out, because ioredis's connect() never settles if a cluster's state is not ok at first. */
async function connected(client: RedisClient, reason: () => Error | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve, reject) => {
    const late = () =>
      reject(reason() ?? new AwayError('The Redis Cluster is not ready: its cluster_state is not ok.'));
    if (client.isCluster) timer = setTimeout(late, READY_TIMEOUT_MS);
    client.once('ready', resolve);
    client.once('end', () => reject(new Error('connection closed')));
    client.connect().catch(reject);
  }).finally(() => clearTimeout(timer));
}

export function mastersOf(client: RedisClient): readonly Redis[] {
  return client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
}

export async function slotsOf(client: RedisClient): Promise<string> {
  if (!client.isCluster) return '';
  const ranges = (await client.cluster('SLOTS')) as unknown as [number, number, [string, number]][];
  return JSON.stringify(ranges.map(([from, to, [host, port]]) => [from, to, host, port]).sort());
}

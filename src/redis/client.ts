// Connections to Redis or Redis Cluster, set up so that ioredis never decides on its own to send
// something twice: a command whose connection is lost fails at once, and its sender knows
// whether it may be sent again (sender.ts). Timers are ours, too: deadline.ts, silence.ts.
//
// `maxRetriesPerRequest: 0` rejects what was in flight as soon as a connection closes.
// `autoResendUnfulfilledCommands: false` alone would leave it pending for ever
// (https://github.com/redis/ioredis/issues/2193).

import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { type Backoff, backoffMs } from '../backoff.js';
import { StartupError } from '../errors.js';
import { cutSilentConnections } from './silence.js';

export type RedisClient = Redis | Cluster;

// ioredis types `replyMapping` as a type parameter; it is not ours to set.
type Options = Omit<RedisOptions, 'replyMapping'>;

export interface RedisConnection {
  /** One URL is one server; several are nodes of a cluster. */
  readonly urls: readonly string[];
  /** Shown in CLIENT LIST. */
  readonly name: string;
  /** Milliseconds without an answer after which a connection counts as silent; it is cut after twice that at most. */
  readonly timeoutMs: number;
}

const RECONNECT: Backoff = { firstMs: 40, longestMs: 500 };
const SLOTS_TIMEOUT_MS = 2_000;
/** Milliseconds in which a cluster has to be ready at a start. It may be in the making, or just have lost a master. */
const READY_TIMEOUT_MS = 5_000;

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
  // redis://localhost/?path=/run/redis.sock is a unix socket (embedded Redis).
  const path = searchParams.get('path');
  return {
    ...(path ? { path } : { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) }),
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
    ...(pathname.length > 1 ? { db: Number(pathname.slice(1)) } : {}),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  };
}

/** A client that is not connected yet; `connectRedis` does both. Errors of the connection go to `onError`. */
function createRedis(connection: RedisConnection, onError: (error: Error) => void): RedisClient {
  const options = commonOptions(connection);
  const [first, ...others] = connection.urls;
  if (first === undefined) throw new Error('no Redis URL');
  const { host: _host, port: _port, path: _path, db: _db, ...shared } = endpoint(first);
  const client =
    others.length === 0
      ? new Redis({ ...options, ...endpoint(first) })
      : new Cluster(
          connection.urls.map((u) => {
            const { host = 'localhost', port = 6379 } = endpoint(u) as { host?: string; port?: number };
            return { host, port };
          }),
          {
            redisOptions: { ...options, ...shared },
            enableOfflineQueue: false,
            lazyConnect: true,
            slotsRefreshTimeout: Math.min(SLOTS_TIMEOUT_MS, connection.timeoutMs),
            // A MOVED or ASK is followed at once, a second one, too. Nothing is sent again after a while: not when its
            // connection closed, nor at CLUSTERDOWN. (TRYAGAIN can't be turned off. Changes do not go this way.)
            maxRedirections: 2,
            retryDelayOnFailover: 0,
            retryDelayOnClusterDown: 0,
            retryDelayOnTryAgain: 0,
            clusterRetryStrategy: (times) => backoffMs(times, RECONNECT),
          },
        );
  client.on('error', onError);
  // Connections to a cluster's nodes are made by their first command, and a second one meanwhile would fail. (So would
  // the client's own, before it is ready.)
  for (const event of ['ready', 'refresh'])
    client.on(event, () => {
      if (client.isCluster && client.status === 'ready') connectMasters(client as Cluster);
    });
  cutSilentConnections(client, connection.timeoutMs);
  return client;
}

/** Each resolves when its connection is ready, or has ended. */
function connectMasters(cluster: Cluster): Promise<void>[] {
  return cluster.nodes('master').map(async (node) => {
    if (node.status === 'wait')
      await node.connect().catch(() => {}); // told as an error event
    else if (node.status !== 'ready' && node.status !== 'end')
      await new Promise<void>((resolve) => {
        node.once('ready', resolve);
        node.once('end', resolve);
      });
  });
}

/** @throws the connection's error where the first attempt fails; StartupError where a cluster is not ready in time. */
export async function connectRedis(
  connection: RedisConnection,
  onError: (error: Error) => void,
): Promise<RedisClient> {
  // What the connection itself says tells more than "Connection is closed", with which connect() ends.
  let reason: Error | undefined;
  const client = createRedis(connection, (error) => {
    reason = error;
    onError(error);
  });
  try {
    await connected(client);
    if (client.isCluster) await Promise.all(connectMasters(client as Cluster));
    return client;
  } catch (error) {
    client.disconnect();
    throw error instanceof StartupError ? error : (reason ?? error);
  }
}

/**
 * Resolves when it is ready. Where a cluster's state is not ok at first, ioredis tries again, and the promise of its connect()
 * is never settled.
 * @throws the connection's error where the first attempt fails; StartupError where a cluster is not ready in time
 */
async function connected(client: RedisClient): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve, reject) => {
    const late = () =>
      reject(new StartupError('The Redis Cluster is not ready: its cluster_state is not ok.'));
    if (client.isCluster) timer = setTimeout(late, READY_TIMEOUT_MS);
    client.once('ready', resolve);
    client.once('end', () => reject(new Error('connection closed')));
    client.connect().catch(reject);
  }).finally(() => clearTimeout(timer));
}

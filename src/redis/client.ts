// Connections to Redis or Redis Cluster, set up so that ioredis never decides on its own to send
// something twice: a command whose connection is lost fails at once, and whoever sent it knows
// whether it may be sent again (the batcher does, under the same batch id).
//
// `maxRetriesPerRequest: 0` rejects what was in flight as soon as a connection closes.
// `autoResendUnfulfilledCommands: false` alone would leave it pending for ever
// (https://github.com/redis/ioredis/issues/2193).

import { Cluster, Redis, type RedisOptions } from 'ioredis';

export type RedisClient = Redis | Cluster;

// ioredis types `replyMapping` as a type parameter; it is not ours to set.
type Options = Omit<RedisOptions, 'replyMapping'>;

export interface RedisConnection {
  /** One URL is one server; several are nodes of a cluster. */
  readonly urls: readonly string[];
  /** Shown in CLIENT LIST. */
  readonly name: string;
  /** Milliseconds until a command without an answer fails. */
  readonly timeoutMs: number;
}

const RECONNECT_MIN_MS = 20;
const RECONNECT_MAX_MS = 500;

function commonOptions(connection: RedisConnection): Options {
  return {
    connectionName: connection.name,
    commandTimeout: connection.timeoutMs,
    // A command that gave up waiting stays in the queue of its connection, and a connection whose other end is
    // frozen or unreachable stays `ready`: it is cut, and made anew as soon as somebody answers.
    socketTimeout: connection.timeoutMs,
    connectTimeout: 2_000,
    maxLoadingRetryTime: 200,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    lazyConnect: true,
    retryStrategy: (times) => Math.min(RECONNECT_MIN_MS * 2 ** Math.min(times, 10), RECONNECT_MAX_MS),
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
export function createRedis(connection: RedisConnection, onError: (error: Error) => void): RedisClient {
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
            slotsRefreshTimeout: 2_000,
            clusterRetryStrategy: (times) =>
              Math.min(RECONNECT_MIN_MS * 2 ** Math.min(times, 10), RECONNECT_MAX_MS),
          },
        );
  client.on('error', onError);
  return client;
}

/** @throws the connection's error where the first attempt fails. */
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
    await client.connect();
    // A cluster's connect() resolves before its slots are known.
    if (client.status !== 'ready') {
      await new Promise<void>((resolve, reject) => {
        client.once('ready', resolve);
        client.once('end', () => reject(new Error('connection closed')));
      });
    }
    return client;
  } catch (error) {
    client.disconnect();
    throw reason ?? error;
  }
}

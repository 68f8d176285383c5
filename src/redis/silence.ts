// Cuts connections whose other end is frozen or unreachable: such a connection stays `ready` for minutes, and ioredis
// makes no new one while it does.
//
//   heard ──no byte for the time-out, with commands unanswered──▶ silent ──a byte──▶ heard
//                        silent, and the last command is as old ──▶ cut
//
// A silent connection gets no new commands (src/redis/node.ts), but it is not cut at once: commands that still have
// time may be answered when a frozen server wakes up, and their replies would be lost with the connection.

import type { Cluster, Redis } from 'ioredis';

/** The connection was cut by us: nothing came back in time. */
export class SilentConnectionError extends Error {
  constructor(timeoutMs: number) {
    super(`Redis has sent nothing for ${timeoutMs} ms; the connection was cut.`);
    this.name = 'SilentConnectionError';
  }
}

interface Seen {
  stream: Redis['stream'];
  bytes: number;
  oldest: unknown;
  /** Since when there is no sign of life. */
  since: number;
  newest: unknown;
  newestSince: number;
}

const TICKS = 10;

const silent = new WeakSet<Redis>();

/** Whether commands wait on it for longer than the time-out, and not a byte has come. */
export function isSilent(redis: Redis): boolean {
  return silent.has(redis);
}

/** Watches all connections of a client until it ends. @param timeoutMs how long a command may be without an answer */
export function cutSilentConnections(client: Redis | Cluster, timeoutMs: number): void {
  const look = silenceOf(timeoutMs);
  const watch = setInterval(() => {
    for (const redis of client.isCluster ? (client as Cluster).nodes() : [client as Redis]) look(redis);
  }, timeoutMs / TICKS);
  watch.unref();
  client.once('end', () => clearInterval(watch));
}

/** Looks at a connection each time it is called, and cuts it where its time is over. @param clock our monotonic clock */
export function silenceOf(timeoutMs: number, clock = () => performance.now()): (redis: Redis) => void {
  const seen = new WeakMap<Redis, Seen>();
  return (redis) => {
    const { stream, commandQueue: queue } = redis;
    if (stream === undefined || queue.length === 0) {
      seen.delete(redis);
      silent.delete(redis);
      return;
    }
    const now = clock();
    const bytes = stream.bytesRead;
    const oldest = queue.peekFront()?.command;
    const newest = queue.peekBack()?.command;
    const last = seen.get(redis);
    if (last?.stream !== stream || last.bytes !== bytes || last.oldest !== oldest) {
      silent.delete(redis);
      const newestSince = last !== undefined && last.newest === newest ? last.newestSince : now;
      seen.set(redis, { stream, bytes, oldest, since: now, newest, newestSince });
      return;
    }
    if (last.newest !== newest) {
      last.newest = newest;
      last.newestSince = now;
    }
    if (now - last.since < timeoutMs) return;
    // What is in the socket already is read first, see deadline.ts.
    setImmediate(() => {
      if (redis.stream !== stream || stream.bytesRead !== bytes || queue !== redis.commandQueue) return;
      silent.add(redis);
      // Where the callers do not hold back, it ends all the same.
      if (now - last.newestSince >= timeoutMs || now - last.since >= 2 * timeoutMs)
        stream.destroy(new SilentConnectionError(timeoutMs));
    });
  };
}

// Cuts connections to a frozen or unreachable server, which would stay `ready` for minutes.
//
//   active ──no byte for the time-out, with unanswered commands──▶ silent ──a byte──▶ active
//   silent, and the newest command has waited for the time-out, or nothing has come for two ──▶ cut
//
// A silent connection gets no new commands (node.ts), but may still answer.

import type { Cluster, Redis } from 'ioredis';

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
  since: number;
  newest: unknown;
  newestSince: number;
}

const TICKS = 10;

const silent = new WeakSet<Redis>();

export function isSilent(redis: Redis): boolean {
  return silent.has(redis);
}

export function cutSilentConnections(client: Redis | Cluster, timeoutMs: number): void {
  const check = silenceOf(timeoutMs);
  const watch = setInterval(() => {
    for (const redis of client.isCluster ? (client as Cluster).nodes() : [client as Redis]) check(redis);
  }, timeoutMs / TICKS);
  watch.unref();
  client.once('end', () => clearInterval(watch));
}

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
    // Lets Node read the socket first, which may have a reply; see deadline.ts.
    setImmediate(() => {
      if (redis.stream !== stream || stream.bytesRead !== bytes || queue !== redis.commandQueue) return;
      silent.add(redis);
      if (now - last.newestSince >= timeoutMs || now - last.since >= 2 * timeoutMs)
        stream.destroy(new SilentConnectionError(timeoutMs));
    });
  };
}

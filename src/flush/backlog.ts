// How the shards' streams stand: what waits, for how long, and whether a flusher owns them. For `serve`'s metrics:
// the flusher can't tell that there is no flusher.

import type { RedisClient } from '../redis/client.js';
import { type Keys, type StreamKeys, VISIT_STREAMS } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/scripts.js';

const BACKLOG = loadScript('backlog');

export interface Backlog {
  readonly events: number;
  readonly bytes: number;
  /** Milliseconds that the oldest entry has waited; 0 where there is none. */
  readonly oldestMs: number;
  readonly deadLetters: number;
  /** Fencing epoch; 0 before the first flusher. */
  readonly epoch: number;
  /** Milliseconds since the owner's heartbeat; undefined where no flusher owns the shard. */
  readonly silentMs: number | undefined;
}

/**
 * Numbers of the visit streams that there are. On one server visits are logged in the first only, but it may hold what a
 * cluster has left in the others.
 * @throws Redis's errors
 */
export async function visitStreams(redis: RedisClient, keys: Keys): Promise<number[]> {
  const all = Array.from({ length: VISIT_STREAMS }, (_, stream) => stream);
  if (redis.isCluster) return all;
  const found = await Promise.all(all.map((stream) => redis.exists(keys.visits.events(stream))));
  return all.filter((stream) => stream === 0 || found[stream] === 1);
}

/** By number of the shard. @throws Redis's errors */
export function readBacklogs(redis: RedisClient, keys: StreamKeys, shards: number): Promise<Backlog[]> {
  return Promise.all(Array.from({ length: shards }, (_, shard) => readBacklog(redis, keys, shard)));
}

async function readBacklog(redis: RedisClient, keys: StreamKeys, shard: number): Promise<Backlog> {
  const touched = [keys.eventsState(shard), keys.events(shard), keys.eventsDead(shard)];
  const reply = (await runScript(redis, BACKLOG, touched, [])) as [
    number,
    number,
    number,
    number,
    string,
    number,
  ];
  const [events, bytes, oldestMs, deadLetters, epoch, silentMs] = reply;
  return {
    events,
    bytes,
    oldestMs,
    deadLetters,
    epoch: Number(epoch),
    silentMs: silentMs < 0 ? undefined : silentMs,
  };
}

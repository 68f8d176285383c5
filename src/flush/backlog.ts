// Reads a stream's backlog for the metrics of `serve`, which must not depend on a running flusher.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/scripts.js';

const BACKLOG =
  loadScript<[events: number, bytes: number, oldestMs: number, deadLetters: number]>('flush/readBacklog');

export interface Backlog {
  readonly events: number;
  readonly bytes: number;
  /** Age of the oldest entry; 0 if the stream is empty. */
  readonly oldestMs: number;
  readonly deadLetters: number;
}

export async function readBacklog(redis: RedisClient, keys: StreamKeys, stream: number): Promise<Backlog> {
  const touched = [keys.eventsState(stream), keys.events(stream), keys.eventsDead(stream)];
  const [events, bytes, oldestMs, deadLetters] = await runScript(redis, BACKLOG, touched, []);
  return { events, bytes, oldestMs, deadLetters };
}

// How streams stand: what waits, for how long, and whether a flusher owns them. For `serve`'s metrics:
// the flusher can't tell that there is no flusher.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
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
  /** Milliseconds since the owner's heartbeat; undefined where no flusher owns the stream. */
  readonly silentMs: number | undefined;
}

/** By number of the stream. @throws Redis's errors */
export async function readBacklogs(
  redis: RedisClient,
  keys: StreamKeys,
  streams: readonly number[],
): Promise<Map<number, Backlog>> {
  const backlogs = await Promise.all(streams.map((stream) => readBacklog(redis, keys, stream)));
  return new Map(streams.map((stream, i) => [stream, backlogs[i] as Backlog]));
}

async function readBacklog(redis: RedisClient, keys: StreamKeys, stream: number): Promise<Backlog> {
  const touched = [keys.eventsState(stream), keys.events(stream), keys.eventsDead(stream)];
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

// Dead letters: lines that ClickHouse refused. An operator lists, retries or drops them.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/scripts.js';
import { field } from './reader.js';

const APPEND = loadScript('events/appendEvents');
const NO_LIMIT = Number.MAX_SAFE_INTEGER;
/** Sequence, deadline, TTL: without a sequence the script leaves the sender channel alone. */
const UNNUMBERED = [0, NO_LIMIT, 0] as const;
const NEWLINE = Buffer.from('\n');

export interface DeadLetter {
  readonly id: string;
  /** ClickHouse's error code; 0 for a foreign entry. */
  readonly code: number;
  readonly reason: string;
  readonly time: number;
  readonly line: string;
  /** A foreign entry, as JSON; it can only be dropped. */
  readonly entry?: string;
}

export async function listDeadLetters(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
  { count = 100, after }: { readonly count?: number; readonly after?: string | undefined } = {},
): Promise<DeadLetter[]> {
  const from = after === undefined ? '-' : `(${after}`;
  const entries = await redis.xrange(keys.eventsDead(stream), from, '+', 'COUNT', count);
  return entries.map(([id, fields]) => {
    const letter: Record<string, string> = {};
    for (let i = 0; i + 1 < fields.length; i += 2) letter[fields[i] as string] = fields[i + 1] as string;
    const { code, reason = '', time, line = '', entry } = letter;
    const common = { id, code: Number(code), reason, time: Number(time), line };
    return entry === undefined ? common : { ...common, entry };
  });
}

/**
 * Appends lines again, also above the high-water mark, because they were accepted before. An interrupted retry may
 * append a line twice.
 *
 * @returns the number of lines
 */
export async function retryDeadLetters(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
  ids: readonly string[],
): Promise<number> {
  const [events, state] = [keys.events(stream), keys.eventsState(stream)];
  let retried = 0;
  // One at a time: an erasure between a line's read and its append would miss the line.
  for (const id of ids) {
    const [[, fields] = []] = await redis.xrangeBuffer(keys.eventsDead(stream), id, id);
    const line = fields && field(fields, 'line');
    if (line === undefined) continue;
    const args = [...UNNUMBERED, NO_LIMIT, 1, Buffer.concat([line, NEWLINE])];
    await runScript(redis, APPEND, [events, events, state], args);
    retried += await dropDeadLetters(redis, keys, stream, [id]);
  }
  return retried;
}

export async function dropDeadLetters(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
  ids: readonly string[],
): Promise<number> {
  return ids.length === 0 ? 0 : await redis.xdel(keys.eventsDead(stream), ...ids);
}

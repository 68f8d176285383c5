// Dead letters: lines that ClickHouse refused. An operator lists, retries or drops them.

import type { RedisClient } from '../redis/client.js';
import type { StreamKeys } from '../redis/keys.js';
import { loadScript, runScript } from '../redis/scripts.js';

const RETRY = loadScript('flush/retryDeadLetters');

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

export async function retryDeadLetters(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
  ids: readonly string[],
): Promise<number> {
  if (ids.length === 0) return 0;
  const touched = [keys.eventsDead(stream), keys.events(stream), keys.eventsState(stream)];
  return (await runScript(redis, RETRY, touched, ids)) as number;
}

export async function dropDeadLetters(
  redis: RedisClient,
  keys: StreamKeys,
  stream: number,
  ids: readonly string[],
): Promise<number> {
  return ids.length === 0 ? 0 : await redis.xdel(keys.eventsDead(stream), ...ids);
}

// A Redis, and calls of single Lua scripts with plain arrays in and out.

import { readdirSync } from 'node:fs';
import type { Redis } from 'ioredis';
import type { Test } from 'tap';
import { loadScript, runScript, type ScriptArg } from '../../src/redis/scripts.js';
import { connectTo, startTestRedis } from './redis.js';

export function scriptNames(): string[] {
  const files = readdirSync(new URL('../../../lua/', import.meta.url), { recursive: true, encoding: 'utf8' });
  return files
    .filter((file) => file.endsWith('.lua') && !file.startsWith('includes/'))
    .map((file) => file.slice(0, -'.lua'.length));
}

export interface LuaRedis {
  readonly client: Redis;
  /** Runs lua/<name>.lua; an error reply rejects. */
  call(name: string, keys: readonly string[], args: readonly ScriptArg[]): Promise<unknown>;
  /** The server's clock in milliseconds, plus `fromNowMs`. */
  clock(fromNowMs: number): Promise<number>;
}

export async function startLuaRedis(t: Test): Promise<LuaRedis> {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  return {
    client,
    call: (name, keys, args) => runScript(client, loadScript(name), keys, args),
    async clock(fromNowMs) {
      const [seconds, micros] = await client.time();
      return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) + fromNowMs;
    },
  };
}

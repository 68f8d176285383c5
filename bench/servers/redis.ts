// Redis for the benchmark: the one that `wishmeter start` runs, with the settings that docs/operations.md asks for in
// production (append-only file, noeviction), over TCP. Peers get the same.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { type EmbeddedRedis, startRedis } from '../../src/extras/embedded/redis.js';
import { freePort } from './ports.js';

export async function startBenchRedis(dir: string): Promise<EmbeddedRedis> {
  return await startRedis({ dir, port: await freePort(), restart: false });
}

// In one script, so that nothing moves under the scan and no key is counted twice.
const SUM = `
local sum, cursor = 0, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 10000, 'TYPE', 'hash')
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    for _, value in ipairs(redis.call('HVALS', key)) do
      sum = sum + (tonumber(value) or 0) -- a link is no number
    end
  end
until cursor == '0'
return sum
`;

/** The sum of all numbers in hashes whose key matches. */
export async function sumHashes(masters: readonly Redis[], pattern: string): Promise<number> {
  let sum = 0;
  for (const redis of masters) sum += (await redis.eval(SUM, 0, pattern)) as number;
  return sum;
}

/** One figure of INFO. */
async function info(redis: Redis, name: string): Promise<number> {
  const found = new RegExp(`^${name}:([\\d.]+)`, 'm').exec(await redis.info());
  if (!found) throw new Error(`Redis's INFO has no ${name}`);
  return Number(found[1]);
}

const SETTLED_MS = 500;

/** Bytes of Redis's data, without the buffers of connections and of the append-only file, once they stop changing. */
export async function settledMemory(redis: Redis): Promise<number> {
  let last = Number.NaN;
  for (;;) {
    const used = await info(redis, 'used_memory');
    const buffers = (await info(redis, 'mem_clients_normal')) + (await info(redis, 'mem_aof_buffer'));
    const now = used - buffers;
    if (Math.abs(now - last) < 16_384) return now;
    last = now;
    await sleep(SETTLED_MS);
  }
}

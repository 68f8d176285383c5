// Redis for the benchmark: the one that `wishmeter start` runs, with the settings that docs/operations.md asks for in
// production (append-only file, noeviction), and over TCP as it is there. Peers get the same.

import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type EmbeddedRedis, startRedis } from '../../src/embedded/redis.js';
import { freePort } from './ports.js';

export async function startBenchRedis(dir: string): Promise<EmbeddedRedis> {
  return await startRedis({ dir, port: await freePort(), restart: false });
}

/** One that follows another, and is up to date when this resolves. */
export async function startReplica(dir: string, primary: EmbeddedRedis): Promise<EmbeddedRedis> {
  const replica = await startRedis({ dir, port: await freePort(), restart: false });
  const client = connectTo(replica);
  const { hostname, port, password } = new URL(primary.url);
  await client.config('SET', 'masterauth', password);
  await client.replicaof(hostname, Number(port));
  while (!(await client.info('replication')).includes('master_link_status:up')) await sleep(20);
  client.disconnect();
  return replica;
}

/** A plain connection, for looking at what is stored. */
export function connectTo({ url }: Pick<EmbeddedRedis, 'url'>): Redis {
  return new Redis(url);
}

// In one script, so that nothing moves under the scan and no key is counted twice.
const SUM = `
local keys, fields, sum, cursor = 0, 0, 0, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 10000, 'TYPE', 'hash')
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    keys = keys + 1
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
      -- The field without a name is no count: it says where a linked identity's counts are.
      if all[i] ~= '' then
        fields = fields + 1
        sum = sum + (tonumber(all[i + 1]) or 0)
      end
    end
  end
until cursor == '0'
return {keys, fields, sum}
`;

export interface HashTotals {
  readonly keys: number;
  readonly fields: number;
  /** Of the values that are numbers. */
  readonly sum: number;
}

/** All hashes whose key matches, taken together. */
export async function sumHashes(masters: readonly Redis[], pattern: string): Promise<HashTotals> {
  const totals = { keys: 0, fields: 0, sum: 0 };
  for (const redis of masters) {
    const [keys, fields, sum] = (await redis.eval(SUM, 0, pattern)) as [number, number, number];
    totals.keys += keys;
    totals.fields += fields;
    totals.sum += sum;
  }
  return totals;
}

/** One figure of INFO. */
export async function info(redis: Redis, name: string): Promise<number> {
  const found = new RegExp(`^${name}:([\\d.]+)`, 'm').exec(await redis.info());
  if (!found) throw new Error(`Redis does not tell ${name}`);
  return Number(found[1]);
}

const SETTLED_MS = 500;

/**
 * Bytes that Redis has taken from its allocator for what it holds: without buffers of connections and of the
 * append-only file, and when they have stopped changing.
 */
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

/** Resolves when no rewrite of the append-only file runs that would take the processor and the disk. */
export async function untilWritten(redis: Redis): Promise<void> {
  const names = ['aof_rewrite_in_progress', 'aof_rewrite_scheduled', 'rdb_bgsave_in_progress'];
  for (;;) {
    const running = await Promise.all(names.map((name) => info(redis, name)));
    if (running.every((figure) => figure === 0)) return;
    await sleep(100);
  }
}

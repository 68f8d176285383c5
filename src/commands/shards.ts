// `wishmeter shards`: how many streams events are spread over. With a number it raises that while everything runs: `serve`
// and `flush` ask once a second, and all change at the same moment, a few seconds from now.

import { StartupError } from '../errors.js';
import { connectRedis, type RedisClient } from '../redis/client.js';
import { EventShards, MOST_SHARDS } from '../redis/event-shards.js';
import { createKeys } from '../redis/keys.js';
import { redisUrls } from './embedded-databases.js';
import { UsageError } from './help.js';
import type { Program } from './program.js';

const TIMEOUT_MS = 5_000;

/** @throws StartupError where Redis does not answer, has no deployment, or has more shards. */
export async function shards({
  args: [wanted, ...more],
  config,
  stdout,
}: Program<'shards'>): Promise<number> {
  if (more.length > 0) throw new UsageError('shards takes one number.');
  const count = wanted === undefined ? 0 : numberOf(wanted);
  const redis = await open(config);
  try {
    const shards = await EventShards.open(redis, createKeys(config.KEY_PREFIX));
    if (shards.all === 0)
      throw new StartupError(`Redis has nothing under KEY_PREFIX ${config.KEY_PREFIX}: start serve first.`);
    if (count > 0 && count < shards.all)
      throw new StartupError(`There are ${shards.all} shards, and their number can only be raised.`);
    await shards.raise(count);
    for (const { shards: number, at } of shards.raises.slice(-1)) {
      const when =
        at > shards.now() ? `from ${new Date(at).toISOString()} on; ${shards.current} until then` : '';
      stdout.write(`${number} ${when}`.trim().concat('\n'));
    }
    return 0;
  } finally {
    redis.disconnect();
  }
}

function numberOf(text: string): number {
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= MOST_SHARDS) return number;
  throw new UsageError(`shards takes a number from 1 to ${MOST_SHARDS}, and not ${JSON.stringify(text)}.`);
}

/** REDIS_URL, or the embedded one of a `wishmeter start` in DATA_DIR. */
async function open(config: Program<'shards'>['config']): Promise<RedisClient> {
  try {
    return await connectRedis(
      { urls: redisUrls(config), name: 'wishmeter shards', timeoutMs: TIMEOUT_MS },
      () => {},
    );
  } catch (error) {
    throw new StartupError(`Redis does not answer: ${(error as Error).message}.`);
  }
}

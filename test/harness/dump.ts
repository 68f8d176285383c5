// All data under a prefix in Redis, as plain objects, except sender channels, which expire. `allKeys` has the
// names of all keys.

import type { Redis } from 'ioredis';
import { createKeys } from '../../src/redis/keys.js';
import { keyPattern } from './key-pattern.js';
import { eachKey, type Urls } from './redis.js';

export type Dump = Readonly<Record<string, unknown>>;

/** key -> content, sorted by key. On a cluster: the data of all masters. */
export async function dumpRedis(redis: Urls, prefix: string): Promise<Dump> {
  const passing = keyPattern(...senderChannels(prefix));
  const entries = await eachKey(
    redis,
    `${prefix}:*`,
    async (client, key): Promise<[string, unknown][]> =>
      passing.test(key) ? [] : [[key, await contentOf(client, key)]],
  );
  return Object.fromEntries(entries.flat().sort(([a], [b]) => (a < b ? -1 : 1)));
}

export async function allKeys(redis: Urls, prefix: string): Promise<string[]> {
  return (await eachKey(redis, `${prefix}:*`, async (_, key) => key)).sort();
}

/**
 * Keys with one of these texts in their name or value; without streams, times of erasures and values of
 * idempotency keys.
 */
export async function tracesOf(redis: Urls, prefix: string, ...texts: readonly string[]): Promise<string[]> {
  const keys = createKeys(prefix);
  const isPassing = keyPattern(...senderChannels(prefix), keys.erasedAt('*.*'), keys.erasures);
  const isRequest = keyPattern(keys.request('*'));
  // Searches only the hash of a profile's id, because keys have bucket and hash apart.
  const needles = texts.map((text) => (/^\w{1,2}\.\w/.test(text) ? text.slice(text.indexOf('.') + 1) : text));
  return Object.entries(await dumpRedis(redis, prefix))
    .filter(([key, value]) => !Array.isArray(value) && !isPassing.test(key))
    .map(([key, value]) => (isRequest.test(key) ? key : `${key} ${JSON.stringify(value)}`))
    .concat((await allKeys(redis, prefix)).filter((key) => !isPassing.test(key)))
    .filter((held) => needles.some((text) => held.includes(text)));
}

function senderChannels(prefix: string): string[] {
  return [`${prefix}:meta`, '*'].map((tag) => createKeys(prefix).senderChannel(tag, '*'));
}

async function contentOf(client: Redis, key: string): Promise<unknown> {
  switch (await client.type(key)) {
    case 'string':
      return client.get(key);
    case 'hash':
      return Object.fromEntries(
        Object.entries(await client.hgetall(key)).sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    case 'stream':
      return client.xrange(key, '-', '+');
    case 'zset': {
      const members = await client.zrange(key, '0', '-1');
      return Object.fromEntries(
        await Promise.all(members.map(async (member) => [member, await client.zscore(key, member)])),
      );
    }
    default:
      return client.dump(key);
  }
}

// Restores keys into an empty Redis with any number of nodes. `meta` comes last, so that a half-restored deployment
// can't run: without `meta`, `flush` fails, and a `serve` creates its own, which makes the restore fail.
//
// The backup may lack pending operations, because it read them after the profiles. So each merge or erasure that a
// profile shows is listed as pending, and the first `serve` completes it.

import pLimit from 'p-limit';
import { StartupError } from '../../errors.js';
import { mastersOf, type RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { together } from '../../together.js';
import type { OnProgress } from './dump-redis.js';
import { kindOf } from './key-kinds.js';
import { type KeyRecord, readDump } from './key-records.js';

const MAX_CONCURRENT = 128;
const MOST_BYTES = 16 * 1024 * 1024;
const SCAN_COUNT = 1_000;
export async function hasKeys(client: RedisClient, prefix: string): Promise<boolean> {
  for (const node of mastersOf(client))
    for await (const found of node.scanStream({ match: `${prefix}:*`, count: SCAN_COUNT }))
      if (found.length > 0) return true;
  return false;
}

export interface RestoreOfKeys {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly prefix: string;
  readonly paths: readonly [all: string, again: string];
  readonly onProgress: OnProgress;
}

/** @throws StartupError if another program writes to this Redis, or if its version is older than the backup's */
export async function restoreRedis(spec: RestoreOfKeys): Promise<void> {
  const { client, keys, prefix, onProgress } = spec;
  let meta: KeyRecord | undefined;
  let count = 0;
  const merging = new Set<string>();
  const operations: string[] = [];
  await eachRecord(spec, async (record) => {
    if (record.key === keys.meta) {
      meta = record;
      return;
    }
    const { kind = '', profileId = '' } = kindOf(record.key.slice(prefix.length + 1)) ?? {};
    if (kind.startsWith('j')) merging.add(profileId);
    if (kind === 'zg') operations.push(`erase ${profileId} ${record.key.split(':').at(-1)}`);
    await restoreKey(client, record);
    onProgress('Redis, keys', ++count);
  });
  if (meta === undefined) throw new StartupError('The backup has no `meta`: there is nothing to restore.');
  for (const source of merging) {
    const target = await client.hget(keys.profile(source), 'target');
    if (target?.startsWith('!')) operations.push(`merge ${source} ${target.slice(1)}`);
  }
  for (const operation of operations) await client.zadd(keys.pending(0), 'NX', Date.now(), operation);
  await restoreKey(client, meta);
}

/** @throws StartupError if a key is missing that has not expired */
export async function verifyRedis(
  spec: Omit<RestoreOfKeys, 'keys'>,
): Promise<{ keys: number; ended: number }> {
  const { client, prefix, onProgress } = spec;
  const found = { keys: 0, ended: 0 };
  await eachRecord(spec, async ({ key, endsAt }) => {
    onProgress('Redis, keys looked for', found.keys + found.ended);
    if ((await client.exists(key)) === 1) found.keys++;
    else if (endsAt !== -1 && endsAt <= Date.now()) found.ended++;
    else {
      const { kind } = kindOf(key.slice(prefix.length + 1)) ?? {};
      throw new StartupError(
        `A key of the backup is not in Redis (its kind is ${kind}): empty Redis and restore again.`,
      );
    }
  });
  return found;
}

async function eachRecord(
  { paths, prefix }: Omit<RestoreOfKeys, 'keys'>,
  take: (record: KeyRecord) => Promise<void>,
): Promise<void> {
  const limit = pLimit(MAX_CONCURRENT);
  let page: Promise<void>[] = [];
  let bytes = 0;
  const finishPage = async () => {
    await together(page);
    [page, bytes] = [[], 0];
  };
  for await (const record of readDump(paths, `${prefix}:`)) {
    const taken = limit(take, record);
    taken.catch(() => {}); // `finishPage` throws the error
    page.push(taken);
    bytes += record.payload.length;
    if (page.length >= MAX_CONCURRENT * 8 || bytes >= MOST_BYTES) await finishPage();
  }
  await finishPage();
}

async function restoreKey(client: RedisClient, { key, endsAt, payload }: KeyRecord): Promise<void> {
  try {
    // 0 means no expiry.
    await client.restore(key, Math.max(endsAt, 0), payload, 'ABSTTL');
  } catch (error) {
    const { message } = error as Error;
    if (message.startsWith('BUSYKEY'))
      throw new StartupError(
        'Something else writes to this Redis under the same KEY_PREFIX: stop every `serve`, `flush` and `deliver`, empty it and restore again.',
      );
    if (/DUMP payload version/.test(message))
      throw new StartupError(
        'This Redis is older than the one that was backed up: it does not read its values.',
      );
    throw error;
  }
}

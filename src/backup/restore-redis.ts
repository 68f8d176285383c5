// A backup's keys into an empty Redis, of any shape: the tag in a key's name says its slot. Streams come with their consumer
// groups, and are found by the marks that `meta` names, wherever their slots are (src/redis/marks.ts).
//
// `meta` comes last. Until then there is no deployment: `flush` refuses to run, and a `serve` that is started begins one of its
// own, which is then in the way. So a half-restored deployment is never served.
//
// Guests end when they would have. What merges leave behind for some hours counts from the restore, since the first process
// that starts mends with it what was under way; notes of what a target was given stay until such a guest has to log in again.

import pLimit from 'p-limit';
import { StartupError } from '../errors.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { readChecked } from './checked-file.js';
import { mastersOf, type OnProgress } from './dump-redis.js';
import { kindOf } from './key-kinds.js';
import { type KeyRecord, readRecords } from './key-records.js';

/** Commands under way at once. */
const AT_ONCE = 128;
/** Bytes of payloads under way at once. */
const MOST_BYTES = 16 * 1024 * 1024;
const SCAN_COUNT = 1_000;
/** Journals of merges, and lists of them. */
const OF_MERGES: ReadonlySet<string> = new Set(['jr', 'ji', 'jp', 'jg', 'merges']);
/** As src/identity/merge.ts keeps the notes of an unfinished merge. */
const NOTES_MS = 400 * 24 * 60 * 60 * 1_000;

/** Whether there are keys of this prefix. @throws Redis's errors */
export async function hasKeys(client: RedisClient, prefix: string): Promise<boolean> {
  for (const node of mastersOf(client)) {
    let cursor = '0';
    do {
      const [next, found] = await node.scan(cursor, 'MATCH', `${prefix}:*`, 'COUNT', SCAN_COUNT);
      if (found.length > 0) return true;
      cursor = next;
    } while (cursor !== '0');
  }
  return false;
}

export interface RestoreOfKeys {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly prefix: string;
  /** The file of keys. */
  readonly path: string;
  /** When the backup was begun, milliseconds since 1970. */
  readonly beganAt: number;
  readonly onProgress: OnProgress;
}

/** @throws StartupError if something else wrote to this Redis, or it does not take the values; Redis's errors */
export async function restoreRedis({ client, keys, ...rest }: RestoreOfKeys): Promise<void> {
  const shiftMs = Date.now() - rest.beganAt;
  let meta: KeyRecord | undefined;
  let count = 0;
  await eachRecord(rest.path, async (record) => {
    if (record.key === keys.meta) {
      meta = record;
      return;
    }
    await restoreKey(client, record, endOf(record, rest.prefix, shiftMs));
    rest.onProgress('Redis, keys', ++count);
  });
  if (meta === undefined) throw new StartupError('The backup has no `meta`: there is nothing to restore.');
  await restoreKey(client, meta, 0);
}

/**
 * Looks for every key of the backup.
 * @returns keys by kind @throws StartupError if one is missing that has not ended since; Redis's errors
 */
export async function verifyRedis(
  rest: Omit<RestoreOfKeys, 'keys' | 'beganAt'>,
): Promise<Map<string, number>> {
  const { client, prefix, path, onProgress } = rest;
  const counts = new Map<string, number>();
  let looked = 0;
  await eachRecord(path, async ({ key, endsAt }) => {
    onProgress('Redis, keys looked for', ++looked);
    const kind = kindOf(key.slice(prefix.length + 1))?.kind ?? '';
    if ((await client.exists(key)) === 1) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    else if (endsAt === -1 || endsAt > Date.now())
      throw new StartupError(
        `A key of the backup is not in Redis (its kind is ${kind}): empty Redis and restore again.`,
      );
  });
  return counts;
}

/** @throws the first error, once nothing is under way */
async function eachRecord(path: string, take: (record: KeyRecord) => Promise<void>): Promise<void> {
  const limit = pLimit(AT_ONCE);
  let page: Promise<void>[] = [];
  let bytes = 0;
  const settle = async () => {
    const ended = await Promise.allSettled(page);
    [page, bytes] = [[], 0];
    const failed = ended.find((one) => one.status === 'rejected');
    if (failed) throw failed.reason;
  };
  for await (const record of readRecords(readChecked(path))) {
    page.push(limit(take, record));
    bytes += record.payload.length;
    if (page.length >= AT_ONCE * 8 || bytes >= MOST_BYTES) await settle();
  }
  await settle();
}

/** As RESTORE with ABSTTL takes it: 0 is never. */
function endOf({ key, endsAt }: KeyRecord, prefix: string, shiftMs: number): number {
  if (endsAt === -1) return 0;
  const { kind = '' } = kindOf(key.slice(prefix.length + 1)) ?? {};
  if (kind === 'x') return Math.max(endsAt, Date.now() + NOTES_MS);
  return OF_MERGES.has(kind) ? endsAt + shiftMs : endsAt;
}

async function restoreKey(client: RedisClient, { key, payload }: KeyRecord, endsAt: number): Promise<void> {
  try {
    await client.restore(key, endsAt, payload, 'ABSTTL');
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

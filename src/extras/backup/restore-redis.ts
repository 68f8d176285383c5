// Restores keys into an empty Redis with any number of nodes. `meta` comes last, so that a half-restored deployment
// can't run: without `meta`, `flush` fails, and a `serve` creates its own, which makes the restore fail.
//
// The keys of one profile are consistent, and a session's are older than its customer's:
//
//   customer's note says that the session's data are merged, all or in part;
//   the session has its data                                         they are frozen, the session linked, the merge pending
//   the session is or was being merged                               pending, which also removes frozen data
//   an erased profile has members set aside                          pending

import pLimit from 'p-limit';
import { StartupError } from '../../errors.js';
import { eraseWork } from '../../profiles/eraser.js';
import { MERGED } from '../../profiles/frozen.js';
import { linkText, parseLink, targetText } from '../../profiles/link.js';
import { isSession, parseMember } from '../../profiles/members.js';
import { mergeWork } from '../../profiles/pending.js';
import { mastersOf, type RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { isCustomers } from '../../redis/location.js';
import { together } from '../../together.js';
import type { OnProgress } from './dump-redis.js';
import { kindOf } from './key-kinds.js';
import { type KeyRecord, readRecords } from './key-records.js';

const MAX_CONCURRENT = 128;
const MOST_BYTES = 16 * 1024 * 1024;
const SCAN_COUNT = 1_000;
export async function hasKeys(client: RedisClient, prefix: string): Promise<boolean> {
  for (const node of mastersOf(client))
    for await (const found of node.scanStream({ match: `${prefix}:*`, count: SCAN_COUNT }))
      if (found.length > 0) return true;
  return false;
}

/** `ended`: expired since the backup. */
export interface FoundKeys {
  readonly keys: number;
  readonly ended: number;
}

export interface RestoreOfKeys {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly prefix: string;
  readonly path: string;
  readonly onProgress: OnProgress;
}

/**
 * Looks for each key before it changes any.
 * @throws StartupError if another program writes to this Redis, or if its version is older than the backup's
 */
export async function restoreRedis(spec: RestoreOfKeys): Promise<FoundKeys> {
  const { client, keys, prefix, onProgress } = spec;
  let meta: KeyRecord | undefined;
  let count = 0;
  const customers: string[] = [];
  const work: string[] = [];
  await eachRecord(spec, async (record) => {
    if (record.key === keys.meta) {
      meta = record;
      return;
    }
    const { kind = '', profileId = '' } = kindOf(record.key.slice(prefix.length + 1)) ?? {};
    await restoreKey(client, record);
    if (kind === 'x') work.push(eraseWork(profileId, (await client.hget(record.key, 'id')) ?? ''));
    else if (kind === 'g' && isCustomers(profileId)) customers.push(profileId);
    else if (kind === 'p' && !isCustomers(profileId)) {
      const target = await client.hget(keys.profile(profileId), 'target');
      if (target !== null) work.push(mergeWork(profileId, parseLink(target)));
    }
    onProgress('Redis, keys', ++count);
  });
  if (meta === undefined) throw new StartupError('The backup has no `meta`: there is nothing to restore.');
  const found = await verifyRedis(spec);
  for (const customer of customers) work.push(...(await matchSessions(spec, customer)));
  for (const one of work) await client.zadd(keys.pending(0), 'NX', Date.now(), one);
  await restoreKey(client, meta);
  return { ...found, keys: found.keys + 1 };
}

/** Gives a customer's sessions the state that their notes have. @returns merges to complete */
async function matchSessions({ client, keys }: RestoreOfKeys, customer: string): Promise<string[]> {
  const pending: string[] = [];
  for (const [session, note] of Object.entries(await client.hgetall(keys.members(customer)))) {
    const { linkId, merged } = parseMember(note);
    const link = { customer, id: linkId };
    if (!isSession(session) || merged === '') continue;
    const facts = keys.profile(session);
    if ((await client.hget(facts, 'target')) === targetText(link)) continue;
    const counts = keys.counts(session);
    // As if the merge had frozen the data: its completion removes them.
    if ((await client.exists(counts)) === 1) await client.rename(counts, keys.frozenCounts(session));
    pending.push(mergeWork(session, link));
    await client.hset(facts, 'target', targetText(link));
    await client.persist(facts);
    await client.hset(counts, '', linkText({ ...link, state: merged === MERGED ? 'merged' : 'merging' }));
  }
  return pending;
}

/** @throws StartupError if a key is missing that has not expired */
async function verifyRedis(spec: RestoreOfKeys): Promise<FoundKeys> {
  const { client, keys, prefix, onProgress } = spec;
  const found = { keys: 0, ended: 0 };
  await eachRecord(spec, async ({ key, endsAt }) => {
    onProgress('Redis, keys looked for', found.keys + found.ended);
    if (key === keys.meta) return;
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
  { path }: Pick<RestoreOfKeys, 'path'>,
  take: (record: KeyRecord) => Promise<void>,
): Promise<void> {
  const limit = pLimit(MAX_CONCURRENT);
  let page: Promise<void>[] = [];
  let bytes = 0;
  const finishPage = async () => {
    await together(page);
    [page, bytes] = [[], 0];
  };
  for await (const record of readRecords(path)) {
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

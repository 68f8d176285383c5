// Erases every visitor of the shop in idempotent steps of a few milliseconds: queues the erasure of all rows, scans and
// deletes keys twice, since SCAN may miss data that moves, and queues the erasure again. Visitors who arrive in between
// may be erased, too.

import pLimit from 'p-limit';
import { EVERY_PROFILE } from '../../identity-rules.js';
import { ERASED_AT_S } from '../../profiles/erased-at.js';
import type { Pending } from '../../profiles/pending.js';
import { queueRows } from '../../profiles/queued-rows.js';
import { mastersOf } from '../../redis/client.js';
import { PROFILE_KINDS } from '../../redis/keys.js';
import type { Store } from '../../redis/store.js';
import { removeKeys, writeAtMaxmemory } from '../../redis/write.js';
import { together } from '../../together.js';

const PAGE = 200;
const MAX_CONCURRENT = 16;
/** Matches a visitor's keys; see src/redis/keys.ts. */
const OF_PROFILE = new RegExp(`^\\{([0-9a-z]+)\\}:[${PROFILE_KINDS.join('')}jx]:([^:]+)$`);
/** Tags of the core's other keys about visitors. */
const VISITOR_TAGS = ['k', 'email', 'share'];

/** Called before each page; throws to end the run. */
export type OnStep = () => Promise<void> | void;

/** @param tags of extras' keys about visitors */
export async function eraseShop(
  store: Store,
  pending: Pending,
  tags: readonly string[],
  onStep: OnStep = () => {},
): Promise<string[]> {
  await queueRows(store, [EVERY_PROFILE]);
  const { shopErasedAt } = store.keys;
  await writeAtMaxmemory(store, shopErasedAt, ['SET', Date.now(), 'EX', ERASED_AT_S]);
  const ofVisitors = new RegExp(`^\\{(?:${[...VISITOR_TAGS, ...tags].join('|')}):`);
  for (let i = 0; i < 2; i++) await eraseFound(store, ofVisitors, onStep);
  await pending.clear();
  await queueRows(store, [EVERY_PROFILE]);
  return [EVERY_PROFILE];
}

async function eraseFound(store: Store, ofVisitors: RegExp, onStep: OnStep): Promise<void> {
  const { prefix } = store.keys;
  let failed: unknown;
  for (const node of await store.call(async (client) => mastersOf(client))) {
    let cursor = '0';
    do {
      await onStep();
      const from = cursor;
      const [after, found] = await store.call(() => node.scan(from, 'MATCH', `${prefix}{*`, 'COUNT', PAGE));
      cursor = after;
      await erasePage(
        store,
        found.map((key) => key.slice(prefix.length)),
        ofVisitors,
      ).catch((error) => {
        failed = error;
      });
    } while (cursor !== '0');
  }
  if (failed !== undefined) throw failed;
}

async function erasePage(store: Store, spelled: readonly string[], ofVisitors: RegExp): Promise<void> {
  const { keys } = store;
  const profiles = new Set<string>();
  const steps: (readonly string[])[] = [];
  for (const key of spelled) {
    const [, bucket, rest] = OF_PROFILE.exec(key) ?? [];
    if (bucket !== undefined) profiles.add(`${bucket}.${rest}`);
    else if (ofVisitors.test(key)) steps.push([keys.prefix + key]);
  }
  for (const profileId of profiles) steps.push(keys.allOf(profileId));
  const limit = pLimit(MAX_CONCURRENT);
  await together(steps.map((step) => limit(() => removeKeys(store, step))));
}

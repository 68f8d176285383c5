// Brings the keys of schema 1 (before there were doors) to those of this program, once, before anything is served. A
// crash in the middle is continued by the next start: each identity is one step, and says by itself whether it was
// taken. Programs of schema 1 must not run meanwhile; once it is done they refuse to start.

import { MAX_HOPS } from '../redis/at-profile.js';
import { SCHEMA } from '../redis/deployment.js';
import { bucketOf } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { createProfileIds, isCustomerBorn } from './profile-id.js';

const UPGRADE = loadScript<number>('upgrade-door');
const UPGRADED = loadScript('upgraded');
const PAGE = 500;
/** Buckets that are upgraded at once. */
const AT_ONCE = 16;

/** @returns the number of identities that were brought forward @throws ServiceError `unavailable` */
export async function upgradeDoors(store: Store): Promise<number> {
  const { keys, deployment } = store;
  if (deployment.schema >= SCHEMA) return 0;
  const profileIds = createProfileIds(deployment.salt, deployment.buckets);
  let upgraded = 0;
  let next = 0;
  const work = async () => {
    while (next < deployment.buckets) {
      const ids = keys.ids((next++).toString(36));
      let cursor = '0';
      do {
        const [after, fields] = await store.call((client) => client.hscan(ids, cursor, 'COUNT', PAGE));
        cursor = after;
        for (let i = 0; i < fields.length; i += 2) {
          const [name, field] = [fields[i] as string, fields[i + 1] as string];
          if (field !== '.' && !field.includes(' '))
            upgraded += await upgradeDoor(store, name, field, profileIds.of(name));
        }
      } while (cursor !== '0');
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  await store.change(UPGRADED, [keys.meta], [SCHEMA]);
  return upgraded;
}

async function upgradeDoor(store: Store, name: string, field: string, own: string): Promise<number> {
  const { keys } = store;
  const touched = [
    keys.ids(bucketOf(own)),
    keys.door(own),
    keys.room(own),
    keys.profile(own),
    keys.notes(own),
  ];
  const customer = isCustomerBorn(own) ? name : '';
  const mark = (await hasGiven(store, own)) ? '' : '!';
  await register(store, name, field, own);
  return store.change(UPGRADE, touched, [name, own, field, customer, mark]);
}

/**
 * Registers an identity that is away at the room that it is in, so that an erasure of the room finds it (see
 * lua/register.lua).
 */
async function register(store: Store, name: string, room: string, own: string): Promise<void> {
  const { keys } = store;
  const isOwned = () => store.call((client) => client.hexists(keys.profile(own), 'owner'));
  if (room === own && !isCustomerBorn(own) && (await isOwned()) === 0) return;
  let at = room;
  for (let hop = 0; hop < MAX_HOPS; hop++) {
    const tombstone = await tombstoneOf(store, at);
    if (tombstone === '') break;
    at = tombstone.replace(/^!/, '');
  }
  await store.call((client) => client.hsetnx(keys.merged(at), name, ''));
}

/** Whether the merge of a profile, if it has one, has given everything: schema 1 gave it in one step, on record. */
async function hasGiven(store: Store, profileId: string): Promise<boolean> {
  let tombstone = await tombstoneOf(store, profileId);
  if (!tombstone.startsWith('!')) return true;
  for (let hop = 0; hop < MAX_HOPS && tombstone !== ''; hop++) {
    const heir = tombstone.replace(/^!/, '');
    const merged = store.keys.merged(heir);
    if ((await store.call((client) => client.hexists(merged, profileId))) === 1) return true;
    tombstone = await tombstoneOf(store, heir);
  }
  return false;
}

/** The tombstone of a profile, upgraded or not; empty where it has none. */
async function tombstoneOf(store: Store, profileId: string): Promise<string> {
  const [door, profile] = [store.keys.door(profileId), store.keys.profile(profileId)];
  const isMarked = (await store.call((client) => client.type(door))) === 'string';
  const there = isMarked ? await store.call((client) => client.get(door)) : null;
  return there || ((await store.call((client) => client.hget(profile, 'heir'))) ?? '');
}

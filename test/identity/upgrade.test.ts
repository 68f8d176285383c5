// Data that was made before there were doors (schema 1, commit a1cc37c) are brought forward at the first start: each
// visitor finds its counts, its items and its profile id, and a merge that had crashed is done once.

import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { createProfileIds } from '../../src/identity/profile-id.js';
import { bucketOf, createKeys } from '../../src/redis/keys.js';
import { startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { contentOf, storedItem } from '../harness/samples.js';

const SALT = 'a'.repeat(64);
const BUCKETS = 4;
const PREFIX = 'old';
const ids = createProfileIds(SALT, BUCKETS);
const keys = createKeys(PREFIX);

/** Keys as a1cc37c spelled them. */
class Old {
  constructor(readonly client: Redis) {}

  async visits(name: string, counts: Record<string, number>) {
    await this.client.hset(keys.door(ids.of(name)), counts);
  }

  async maps(name: string, profileId = ids.of(name)) {
    await this.client.hset(keys.ids(bucketOf(ids.of(name))), name, profileId);
  }

  async owns(customer: string, profileId: string) {
    await this.client.hset(keys.profile(profileId), 'owner', customer);
  }

  async item(profileId: string, product: string) {
    const stored = storedItem(`item-${product}`, contentOf(product), '2026-01-01T00:00:00.000Z');
    await this.client.hset(keys.items(profileId), `${product}:`, stored);
  }

  async tombstone(profileId: string, text: string) {
    await this.client.set(keys.door(profileId), text);
  }

  async left(profileId: string, session: string, to: string) {
    await this.client.hset(keys.notes(profileId), session, to);
  }
}

async function world(old: Old): Promise<void> {
  const of = (name: string) => ids.of(name);
  await old.client.hset(keys.meta, { schema: 1, buckets: BUCKETS, shards: 1, salt: SALT });
  // Guests: one by its counts, one by its mapping, one by both.
  await old.visits('s:anne', { x: 3 });
  await old.maps('s:mapped');
  await old.item(of('s:mapped'), '1');
  await old.visits('s:both', { x: 2 });
  await old.maps('s:both');
  // A customer whose session came later.
  await old.visits('c:1', { x: 5 });
  await old.maps('c:1');
  await old.maps('s:of-1', of('c:1'));
  // A guest that became a customer's.
  await old.visits('s:of-2', { x: 7 });
  await old.item(of('s:of-2'), '2');
  await old.owns('c:2', of('s:of-2'));
  await old.maps('s:of-2');
  await old.maps('c:2', of('s:of-2'));
  // One that was adopted by 3 and moved on to 1.
  await old.visits('s:moved', { x: 11 });
  await old.owns('c:3', of('s:moved'));
  await old.maps('c:3', of('s:moved'));
  await old.maps('s:moved', of('c:1'));
  await old.left(of('c:1'), 's:of-1', of('c:9'));
  // Merged into 1, done.
  await old.tombstone(of('s:merged'), of('c:1'));
  await old.maps('s:merged', of('c:1'));
  // Merges into 1 that crashed: before it was given, and after.
  for (const [session, given] of [
    ['s:taken', false],
    ['s:given', true],
  ] as const) {
    await old.tombstone(of(session), `!${of('c:1')}`);
    await old.maps(session);
    const [counts, , , profile] = keys.journal(of(session)) as [string, string, string, string];
    await old.client.hset(counts, 'y', 13);
    await old.client.hset(profile, 'owner', 'c:1');
    if (!given) continue;
    await old.client.hset(keys.merged(of('c:1')), of(session), 1);
    await old.client.hset(keys.door(of('c:1')), 'y', 13);
  }
}

async function see(app: TestApp, who: object, productHandle = 'x') {
  const { json } = await app.get(withQuery('/product/visit', { ...who, productHandle }), TRUSTED);
  const list = await app.post('/item/list', { identity: who }, TRUSTED);
  if (list.status !== 200) throw new Error(list.text);
  const items = list.json.items.map(({ productId }: { productId: string }) => productId);
  return { profileId: json.profileId, count: json.count, items };
}

async function schema1(t: Test) {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  await world(new Old(client));
  const start = () => startApp(t, redis, { prefix: PREFIX, env: { BUCKETS: String(BUCKETS) } });
  return { client, start };
}

t.test('schema 1 is brought to schema 2 at the first start', async (t) => {
  const { client, start } = await schema1(t);
  const apps = await Promise.all([start(), start()]);
  t.equal(await client.hget(keys.meta, 'schema'), '2');

  const one = ids.of('c:1');
  const expected: [who: object, seen: object][] = [
    [{ sessionId: 'anne' }, { profileId: ids.of('s:anne'), count: 3, items: [] }],
    [{ sessionId: 'mapped' }, { profileId: ids.of('s:mapped'), count: 0, items: ['1'] }],
    [{ sessionId: 'both' }, { profileId: ids.of('s:both'), count: 2, items: [] }],
    [{ customerId: '1' }, { profileId: one, count: 5, items: [] }],
    [{ sessionId: 'of-1' }, { profileId: one, count: 5, items: [] }],
    [{ customerId: '2' }, { profileId: ids.of('s:of-2'), count: 7, items: ['2'] }],
    [{ sessionId: 'of-2' }, { profileId: ids.of('s:of-2'), count: 7, items: ['2'] }],
    [{ customerId: '3' }, { profileId: ids.of('s:moved'), count: 11, items: [] }],
    [{ sessionId: 'moved' }, { profileId: one, count: 5, items: [] }],
    [{ sessionId: 'merged' }, { profileId: one, count: 5, items: [] }],
    [{ sessionId: 'unknown' }, { profileId: ids.of('s:unknown'), count: 0, items: [] }],
  ];
  for (const app of apps) {
    for (const [who, seen] of expected) t.same(await see(app, who), seen, JSON.stringify(who));
    for (const sessionId of ['taken', 'given'])
      t.same(await see(app, { sessionId }, 'y'), { profileId: one, count: 26, items: [] }, sessionId);
  }

  const [app] = apps;
  const link = (customerId: string, sessionId: string) =>
    app.post('/profile/merge', { identity: { customerId, sessionId } }, TRUSTED);
  t.same((await link('1', 'anne')).json, { profileId: one, merged: true });
  t.same(await see(app, { sessionId: 'anne' }), { profileId: one, count: 8, items: [] });
  t.same((await link('2', 'of-1')).json, { profileId: ids.of('s:of-2'), merged: false }, 'it moves');
  t.same(await see(app, { customerId: '1' }), { profileId: one, count: 8, items: [] });
  t.same((await client.keys(`${PREFIX}:*:m:*`)).length, 0, 'notes are gone');
});

t.test('an upgrade that was interrupted is continued', async (t) => {
  const { client, start } = await schema1(t);
  const first = await start();
  const before = await see(first, { sessionId: 'taken' }, 'y');
  await client.hset(keys.meta, 'schema', 1);
  const second = await start();
  t.same(await see(second, { sessionId: 'taken' }, 'y'), before);
  t.match(await see(second, { customerId: '1' }), { count: 5 });
});

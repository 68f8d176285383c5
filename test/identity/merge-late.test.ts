// A merge whose server ended in the middle, and that no request came back to for a day: all that is kept for some hours
// only is gone by then. It ends as if it had not been interrupted.

import t from 'tap';
import { MergeAudit } from '../../src/identity/merge-audit.js';
import type { Identity } from '../../src/identity-rules.js';
import { bucketOf } from '../../src/redis/keys.js';
import { eachRedis } from '../harness/app.js';
import { openRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import {
  add,
  BOTH,
  CUSTOMER,
  GUEST,
  products,
  type Redis,
  shownMerges,
  startServer,
  untilSent,
} from '../wishlist/fixtures.js';

const DAY_MS = 86_400_000;
/** More than a merge takes. */
const MAX_STEPS = 60;

/** What a day does. */
async function forget(redis: Redis, prefix: string): Promise<void> {
  for (const url of redis.urls) {
    const client = openRedis(url);
    for (const key of await client.keys(`${prefix}:*`)) {
      const ttl = await client.pttl(key);
      if (ttl >= 0 && ttl <= DAY_MS) await client.del(key);
    }
    client.disconnect();
  }
}

eachRedis(t, async (t, redis) => {
  t.test('counts are added once, and items are there, after a crash at any step and a day', async (t) => {
    let crashes = 0;
    for (let steps = 1; ; steps++) {
      if (steps > MAX_STEPS) throw new Error('the merge never ends');
      const prefix = `l${steps}`;
      const server = await startServer(t, redis, prefix);
      for (let i = 0; i < 3; i++) await server.visitors.enter('visit', GUEST, true, 'x');
      await server.visitors.enter('visit', CUSTOMER, true, 'x');
      await add(server, GUEST, '1');
      server.crashAfter(steps, true);
      await server.visitors.link({ customerId: 'c', sessionId: 's' }).catch(() => {});
      const wasEnded = server.recover();
      await forget(redis, prefix);
      const { count } = await server.visitors.enter('visitAndCount', BOTH, true, 'x');
      t.equal(count, 5, `ended after step ${steps}`);
      t.equal((await server.visitors.read(GUEST, true, 'x')).count, 5);
      t.same(await products(server, CUSTOMER), ['1']);
      if (!wasEnded) break;
      crashes++;
    }
    t.ok(crashes >= 8, `${crashes} crashes`);
  });

  t.test('an audit looks at every bucket, also where its slot has moved to another node', async (t) => {
    const { store, doors, linker } = await startServer(t, redis, 'audited');
    const { client, keys } = store;
    const condemned = Array.from({ length: 12 }, (_, i) => doors.ownProfile(`s:${i}`)).sort();
    for (const profileId of condemned) {
      await client.hset(keys.profile(profileId), 'heir', '@');
      await client.zadd(keys.merges(bucketOf(profileId)), Date.now(), profileId);
    }
    for (const addressOf of [store.addressOf, () => 'one node']) {
      store.addressOf = addressOf;
      const found: string[] = [];
      const noMerger = undefined as never;
      const audit = new MergeAudit(store, noMerger, linker, async (profileId) => {
        found.push(profileId);
      });
      await audit.run();
      t.same(found.sort(), condemned);
    }
  });

  t.test('what a finished merge keeps goes away by itself', async (t) => {
    const prefix = 'kept';
    const server = await startServer(t, redis, prefix);
    await server.visitors.enter('visit', GUEST, true, 'x');
    await server.visitors.enter('visit', CUSTOMER, true, 'x');
    await add(server, GUEST, '1');
    await server.visitors.enter('visit', BOTH, true, 'x');
    const left = async () => {
      const keys: string[] = [];
      for (const url of redis.urls) {
        const client = openRedis(url);
        for (const key of await client.keys(`${prefix}:*`)) {
          const ttl = await client.pttl(key);
          if (/:(x|j.|merges)(:|$)/.test(key) && (ttl < 0 || ttl > DAY_MS)) keys.push(key);
        }
        client.disconnect();
      }
      return keys;
    };
    for (let i = 0; i < 200 && (await left()).length > 0; i++)
      await new Promise((done) => setTimeout(done, 20));
    t.same(await left(), []);
  });

  t.test(
    'a room that received others is merged away, after a failover: analysts are told of all',
    async (t) => {
      const prefix = 'told';
      const server = await startServer(t, redis, prefix);
      const [first, second] = ['s1', 's2'].map((sessionId) => identityOf({ sessionId })) as [
        Identity,
        Identity,
      ];
      const link = (sessionId: string) => server.visitors.link({ customerId: 'c', sessionId });
      for (const who of [first, second]) await server.visitors.enter('visit', who, true, 'x');
      const { profileId: merged } = await server.visitors.find(second, true);
      const { profileId: room } = await link('s1');
      t.match(await link('s2'), { profileId: room, merged: true });
      // The customer's node forgets where it belongs, and it comes back.
      for (const url of redis.urls) {
        const client = openRedis(url);
        for (const key of await client.keys(`${prefix}:*:ids`)) await client.hdel(key, 'c:c');
        for (const key of await client.keys(`${prefix}:*:v:c*`)) await client.del(key);
        client.disconnect();
      }
      await server.visitors.enter('visit', CUSTOMER, true, 'x');
      const { profileId: own } = await server.visitors.find(CUSTOMER, true);
      t.not(own, room);
      t.match(await link('s1'), { profileId: own, merged: true });
      t.equal((await server.visitors.read(second, true, 'x')).count, 3);
      await untilSent(redis, prefix);
      t.same(
        (await shownMerges(redis, prefix)).map(String).sort(),
        [`${merged},${room}`, `${room},${own}`, `${merged},${own}`].sort(),
      );
    },
  );
});

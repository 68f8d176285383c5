// The index of subscribers follows the wishlists. Until the product changes it may have stale entries, but it
// never lacks one.

import t from 'tap';
import { Subscribers } from '../../../src/extras/alerts/subscribers.js';
import { createKeys } from '../../../src/redis/keys.js';
import { runHere } from '../../cli/in-process.js';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../../harness/app.js';
import { dumpRedis, tracesOf } from '../../harness/dump.js';
import { connectToEach } from '../../harness/redis.js';
import { openStore } from '../../harness/store.js';
import { until } from '../../harness/until.js';
import { ALERTS, alertsOf, putAt, subscribersOf } from './fixtures.js';

eachRedis(t, async (t, redis) => {
  let visitors = 0;
  /** A visitor of an app of its own, whose index has nobody else. */
  const start = async () => {
    const n = ++visitors;
    const ids = { customerId: `customer-${n}`, sessionId: `session-${n}` };
    const app = await startApp(t, redis, { env: ALERTS });
    return { app, ids, guest: { sessionId: ids.sessionId }, customer: { customerId: ids.customerId } };
  };
  const nodes = connectToEach(t, redis.urls);
  /** Runs on every node; it succeeds on the one that has the key. */
  const onNode = async (act: (node: (typeof nodes)[number]) => Promise<unknown>) => {
    await Promise.all(nodes.map((node) => act(node).catch(() => undefined)));
  };
  const age = async (app: TestApp) => {
    for (const [key, entries] of Object.entries(await dumpRedis(redis, app.prefix)))
      if (key.includes('{wish:'))
        for (const profile of Object.keys(entries as object))
          await onNode((node) => node.hset(key, profile, 1));
  };
  const add = (app: TestApp, who: object, productId = '1') =>
    app.shop.add(who, { productId, price: '80.00' });
  const alerted = async (app: TestApp) =>
    (await alertsOf(redis, app)).map((row) => [row['profile_id'], row['customer_id'], row['session_id']]);

  t.test(
    "a login moves a guest's index entry to the customer, and the alert names the customer",
    async (t) => {
      const { app, ids, guest } = await start();
      await add(app, guest);
      const { profileId } = await app.shop.login(ids);
      t.same(await subscribersOf(redis, app), [profileId]);
      t.same(await putAt(app, '1', '70.00'), [1, 0]);
      t.same(await alerted(app), [[profileId, ids.customerId, ids.sessionId]]);
    },
  );

  t.test('a merge moves the index entries, and repeats no alert', async (t) => {
    const { app, ids, guest, customer } = await start();
    await add(app, guest);
    await add(app, guest, '2');
    t.same(await putAt(app, '1', '70.00'), [1, 0]);
    const { profileId } = await add(app, customer, '3');
    await app.shop.login(ids);
    t.same(await subscribersOf(redis, app), [profileId, profileId, profileId]);
    t.same(await putAt(app, '1', '70.00'), [0, 0]);
    t.same(await putAt(app, '2', '70.00'), [1, 0]);
    t.same((await alerted(app)).at(-1), [profileId, ids.customerId, ids.sessionId]);
  });

  t.test('a removed item leaves the index once its entry is older than an addition may take', async (t) => {
    const { app, guest } = await start();
    const { profileId } = await add(app, guest);
    await app.shop.remove(guest, { productId: '1' });
    t.same(await subscribersOf(redis, app), [profileId], 'an addition may be on its way');
    t.same(await putAt(app, '1', '70.00'), [0, 0]);
    await age(app);
    t.same(await putAt(app, '1', '70.00'), [0, 0]);
    t.same(await subscribersOf(redis, app), [], 'gone when the product came next');
    await add(app, guest);
    await age(app);
    await app.shop.remove(guest, { productId: '1' });
    t.same(await subscribersOf(redis, app), []);
    await add(app, guest);
    await age(app);
    await add(app, guest);
    await app.shop.remove(guest, { productId: '1' });
    t.same(await subscribersOf(redis, app), [profileId], 'one that is added again is not old');
  });

  t.test('an index entry stays as long as its item exists', async (t) => {
    const { app, guest } = await start();
    const { profileId } = await add(app, guest);
    await age(app);
    const store = await openStore(t, redis, { keyPrefix: app.prefix });
    const subscribers = new Subscribers(store, undefined, 0);
    await subscribers.forget(['1:', '2:'], profileId);
    t.same(await subscribersOf(redis, app), [profileId]);
    await subscribers.close();
  });

  t.test("an erasure removes the visitor's index entries", async (t) => {
    const { app, ids, guest, customer } = await start();
    const { profileId: guestProfile } = await add(app, guest);
    t.same(await app.shop.erase(guest), { erased: true });
    t.same(await subscribersOf(redis, app), []);
    await add(app, guest);
    const { profileId } = await add(app, customer, '2');
    await app.shop.login(ids);
    t.same(await app.shop.erase(customer), { erased: true });
    t.same(await subscribersOf(redis, app), []);
    const traces = await tracesOf(redis, app.prefix, guestProfile, profileId, ids.customerId, ids.sessionId);
    t.same(traces, []);
  });

  t.test('an erasure of the shop removes every index', async () => {
    const { app, guest, customer } = await start();
    await add(app, guest);
    await add(app, customer);
    await app.post('/webhook/shop/redact', { shop_domain: 'shop.myshopify.com' }, TRUSTED);
    await runHere('requests', ['confirm', '1'], { REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix });
    await until('nothing is in an index', async () => (await subscribersOf(redis, app)).length === 0);
  });

  t.test(
    'an expired guest leaves the index at the next product change, and other subscribers are alerted',
    async (t) => {
      const { app, guest, customer } = await start();
      const { profileId: ended } = await add(app, guest);
      const { profileId } = await add(app, customer);
      await age(app);
      for (const key of createKeys(app.prefix).allOf(ended)) await onNode((node) => node.unlink(key));
      t.same(await putAt(app, '1', '70.00'), [1, 0]);
      t.same(await subscribersOf(redis, app), [profileId]);
    },
  );

  t.test('an alert does not extend the expiry of a guest', async (t) => {
    const { app, guest } = await start();
    const { profileId } = await add(app, guest);
    const key = createKeys(app.prefix).items(profileId);
    await onNode((node) => node.pexpire(key, 1_000_000));
    t.same(await putAt(app, '1', '70.00'), [1, 0]);
    const left = await Promise.all(nodes.map((node) => node.pttl(key).catch(() => 0)));
    t.ok(Math.max(...left) > 0 && Math.max(...left) <= 1_000_000);
  });

  t.test(
    'two servers that put prices at once alert each subscriber once per price at most, and the last price stays',
    async (t) => {
      const { app, guest } = await start();
      const other = await startApp(t, redis, { env: ALERTS, prefix: app.prefix });
      const names = Array.from({ length: 60 }, (_, i) => `at-once-${i}`);
      await Promise.all([guest.sessionId, ...names].map((sessionId) => add(app, { sessionId })));
      const prices = ['70.00', '60.00', '75.00', '50.00', '65.00'];
      await Promise.all(prices.map((price, i) => putAt(i % 2 === 0 ? app : other, '1', price)));
      const rows = await alertsOf(redis, app);
      for (const sessionId of names) {
        const of = rows.filter((row) => row['session_id'] === sessionId).map(({ price }) => price);
        t.equal(new Set(of).size, of.length, `${sessionId}: ${of}`);
      }
      // The last price is in every item: it causes no second alert, and a lower one alerts each subscriber.
      const items = Object.entries(await dumpRedis(redis, app.prefix)).filter(([key]) => key.includes(':i:'));
      const last = items.map(([, all]) =>
        Object.values(all as Record<string, string>)[0]
          ?.split('\n')[1]
          ?.split(' ')
          .slice(2),
      );
      t.equal(new Set(last.map(String)).size, 1, String([...new Set(last.map(String))]));
      t.same(await putAt(app, '1', '40.00'), [names.length + 1, 0]);
    },
  );
});

// The core without any extra, from a visit and from each way to make an event to their rows in ClickHouse; and with two
// that it doesn't know.

import { pino } from 'pino';
import t from 'tap';
import type { Extra } from '../src/app/extra.js';
import { flush } from '../src/app/flush.js';
import { readConfig } from '../src/config.js';
import { createKeys } from '../src/redis/keys.js';
import { SHOP_DOMAIN, startApp, TRUSTED } from './harness/app.js';
import { connectToClickHouse } from './harness/clickhouse.js';
import { connectTo, startTestRedis } from './harness/redis.js';
import { startStores } from './harness/stores.js';
import { until } from './harness/until.js';
import { deliver, orderOf, SECRET, switchTo } from './http/orders.js';

t.test('serve and flush without an extra count visits and record every event of a wishlist', async (t) => {
  const { redis, clickhouse, env: stores } = await startStores(t);
  const env = { ...stores, SHOPIFY_SECRET: SECRET, SHOP_DOMAIN };
  const app = await startApp(t, redis, { env, extras: [] });
  const flushing = await flush(readConfig({ ...env, KEY_PREFIX: app.prefix }), pino({ level: 'silent' }));
  t.teardown(() => flushing.close());
  const { shop } = app;
  const who = { customerId: '7' };
  const { profileId } = await shop.visit(who);
  t.match(await shop.visit(who), { profileId, count: 2 });
  t.match(await shop.reset(who), { profileId, productHandle: 'red-shoe' });
  t.equal(await shop.count(who), 0);

  t.match(await shop.event(who, 'add', { productId: '1', variantId: null, source: 'pdp' }), { profileId });
  for (const productId of ['2', '3', '10']) t.match(await shop.add(who, { productId }), { profileId });
  t.match(await shop.remove(who, { productId: '2' }), { removed: true });
  t.match(await shop.remove(who, { productId: '3', event: 'moveToCart' }), { removed: true });
  t.match(await shop.share(who), { code: String });
  await switchTo(app, true);
  const order = orderOf({ id: 7 }, [{ product_id: 10, variant_id: 100 }]);
  t.match(await deliver(app, order), { status: 200, json: { recorded: 1 } });
  t.same(await shop.items(who), []);

  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const ask = async (query: string): Promise<unknown[]> =>
    (await client.query({ query, format: 'JSONCompactEachRow' })).json();
  const inClickHouse = (rows: number, query: string) =>
    until(query, async () => (await ask(query)).length === rows);
  const events = 'SELECT type FROM events ORDER BY occurred_at, event_id';
  await inClickHouse(8, events);
  const types = ['add', 'add', 'add', 'add', 'remove', 'moveToCart', 'share', 'autoRemoveAfterPurchase'];
  t.same((await ask(events)).flat(), types);
  await inClickHouse(2, 'SELECT product_handle FROM visits');
  await inClickHouse(1, 'SELECT order_id FROM purchases');
  t.equal((await app.get('/profile?customerId=7', TRUSTED)).status, 405, 'an export is an extra');
});

function indexing(tag: string) {
  const calls: string[] = [];
  const call = (name: string) => async (fields: string | readonly string[]) => {
    calls.push(`${name} ${fields}`);
  };
  const itemIndex = {
    ...{ tag, noteOf: () => ` ${tag}`, sweep: async () => 0 },
    ...{ add: call('add'), addAll: call('addAll'), remove: call('remove'), forget: call('forget') },
  };
  const extra: Extra = () => ({ itemIndex, plug: () => ({}) });
  return { extra, calls };
}

t.test('every extra with an index learns of each added, removed, merged and erased item', async (t) => {
  const redis = await startTestRedis(t);
  const [first, second] = [indexing('first'), indexing('second')];
  const app = await startApp(t, redis, { extras: [first.extra, second.extra] });
  const guest = { sessionId: 's-1' };
  const { profileId } = await app.shop.add(guest, { productId: '1' });
  await app.shop.add(guest, { productId: '2' });
  await app.shop.remove(guest, { productId: '2' });
  const stored = await connectTo(t, redis.url).hvals(createKeys(app.prefix).items(profileId));
  t.match(stored, [/^.*\n\S+ first second\n/]);
  await app.shop.visit({ ...guest, customerId: '7' });
  await app.shop.erase({ customerId: '7' });
  // The merge and the erasure remove the guest's entry.
  t.same([...new Set(first.calls)], ['add 1:', 'add 2:', 'forget 2:', 'addAll 1:', 'remove 1:']);
  t.same(second.calls, first.calls);
});

// One alert per price drop and restock for each subscriber: many of them, several processes, crashes. FAULTS=full: 100,000.

import t from 'tap';
import { alerts, alertsWith } from '../../../src/extras/alerts/extra.js';
import { alertKeys } from '../../../src/extras/alerts/keys.js';
import { Subscribers } from '../../../src/extras/alerts/subscribers.js';
import { createKeys } from '../../../src/redis/keys.js';
import { runWishmeter } from '../../cli/wishmeter.js';
import { startApp, TRUSTED } from '../../harness/app.js';
import { connectToClickHouse, select } from '../../harness/clickhouse.js';
import { extrasWith } from '../../harness/extras.js';
import { Contract } from '../../harness/openapi.js';
import { connectTo, startTestCluster, startTestRedis } from '../../harness/redis.js';
import { contentOf, storedItem } from '../../harness/samples.js';
import { openStore } from '../../harness/store.js';
import { startStores } from '../../harness/stores.js';
import { until } from '../../harness/until.js';
import { startTool } from '../receivers/fixtures.js';
import { ALERTS, alertsOf, product, productOf, put, putAt } from './fixtures.js';

/**
 * Successive prices of a product without variants that was saved at 80.00; `!` marks each price drop that is
 * alerted.
 */
const PRICES: Readonly<Record<string, readonly string[]>> = {
  'a price drop is alerted once': ['70.00!', '70.00'],
  'each further price drop is alerted': ['70.00!', '60.00!', '59.99!'],
  'a rise below the saved price is not alerted, and the next drop is': ['60.00!', '65.00', '64.00!'],
  'a price drop after a rise is alerted': ['60.00!', '65.00', '90.00', '70.00!'],
  'a price drop to no less than the saved price is not alerted': ['99.00', '85.00', '80.00', '79.99!'],
  'prices are compared as numbers, not as texts': ['100.00', '9.00!', '10.00', '009.50!'],
};
/** The stock when it was saved, and then successive stocks; `!` marks each restock that is alerted. */
const STOCK: Readonly<Record<string, readonly string[]>> = {
  'a restock is alerted once': ['out', 'out', 'in!', 'in'],
  'each restock is alerted': ['in', 'in', 'out', 'in!', 'out', 'in!'],
  'a restock of an item that was saved out of stock is alerted': ['out', 'in!'],
};
// On a cluster an item and its subscribers are in different slots. The other tests use one Redis.
t.test('alerts', async (t) => {
  const redis = await startTestCluster(t);
  const app = await startApp(t, redis, { env: ALERTS });
  let next = 1;
  const wish = async (changes: object = {}) => {
    const productId = String(next++);
    const sessionId = `s-${productId}`;
    await app.shop.add({ sessionId }, { productId, price: '80.00', ...changes });
    return { productId, sessionId };
  };

  for (const [name, puts] of Object.entries(PRICES))
    t.test(name, async (t) => {
      const { productId } = await wish();
      for (const put of puts)
        t.same(await putAt(app, productId, put.replace('!', '')), [put.endsWith('!') ? 1 : 0, 0], put);
    });

  for (const [name, [wished, ...puts]] of Object.entries(STOCK))
    t.test(name, async (t) => {
      const { productId } = await wish({ inventoryAvailable: wished === 'in' });
      for (const put of puts) {
        const alerts = await putAt(app, productId, '80.00', put.startsWith('in'));
        t.same(alerts, [0, put.endsWith('!') ? 1 : 0], put);
      }
    });

  t.test('a price drop and a restock at once are two alerts', async (t) => {
    const { productId } = await wish({ inventoryAvailable: false });
    t.same(await putAt(app, productId, '70.00'), [1, 1]);
    t.same(await putAt(app, productId, '70.00'), [0, 0]);
    t.ok(((await app.figure('events_total{type="priceDrop"}')) ?? 0) > 0);
  });

  t.test('an item that is added again is compared with its new price and stock', async (t) => {
    const { productId, sessionId } = await wish();
    t.same(await putAt(app, productId, '70.00', false), [1, 0]);
    await app.shop.add({ sessionId }, { productId, price: '70.00' });
    t.same(await putAt(app, productId, '70.00', true), [0, 0]);
    t.same(await putAt(app, productId, '69.00', true), [1, 0]);
    await app.shop.add({ sessionId }, { productId, price: '80.00' });
    t.same(await putAt(app, productId, '69.00', true), [1, 0]);
    const ids = (await alertsOf(redis, app))
      .filter(({ product_id }) => product_id === productId)
      .map(({ event_id }) => event_id);
    t.equal(new Set(ids).size, 3, 'under ids of their own');
  });

  t.test('an item with a variant follows that variant, and one without a variant the product', async (t) => {
    const { productId } = await wish({ variantId: '11' });
    const other = { sessionId: 's-other' };
    await app.shop.add(other, { productId, price: '80.00', inventoryAvailable: false });
    const low = { variantId: '12', price: '75.00' };
    const high = { variantId: 11, price: '85.00', inventoryAvailable: false };
    t.same(await put(app, productId, high, low), [1, 1], 'the lowest price, and any stock');
    t.same(await put(app, productId, { ...high, price: '79.00' }, low), [1, 0], 'the variant');
    t.same(await put(app, productId, { ...high, inventoryAvailable: true }, low), [0, 1]);
    const own = { variantId: '11', price: '60.00' };
    t.same(await put(app, productId, { price: '76.00' }, own), [1, 0], 'its own line');
    const usd = { variantId: '13', price: '1.00', currencyCode: 'USD' };
    const eur = { variantId: '14', price: '74.00', currencyCode: 'EUR' };
    t.same(await put(app, productId, usd, eur), [1, 0], "the lowest one of the item's currency");
    const alerts = (await alertsOf(redis, app)).filter(({ session_id }) => session_id === other.sessionId);
    const texts = alerts.map(({ type, price }) => `${type} ${price}`);
    t.same(texts.sort(), ['backInStock 75.00', 'priceDrop 74.00', 'priceDrop 75.00']);
  });
});

const SUBSCRIBERS = process.env['FAULTS'] === 'full' ? 100_000 : 2_000;
const PAGE = 1_000;
t.test(
  `a price drop alerts each of ${SUBSCRIBERS} subscribers once, even if a process ends half-way`,
  { timeout: 600_000 },
  async (t) => {
    const redis = await startTestRedis(t);
    const app = await startApp(t, redis, { prefix: 'many', env: ALERTS });
    const client = connectTo(t, redis.url);
    const keys = createKeys(app.prefix);
    const store = await openStore(t, redis, { keyPrefix: app.prefix });
    const subscribers = new Subscribers(store);
    const content = { ...contentOf('1'), variantId: '2', price: '80.00' };
    const item = storedItem('i', content, '2026-03-01T00:00:00.000Z');
    for (let from = 0; from < SUBSCRIBERS; from += PAGE) {
      const pipeline = client.pipeline();
      const ids = Array.from({ length: PAGE }, (_, i) => `${(from + i).toString(36)}.sX${from + i}`);
      for (const id of ids) pipeline.hset(keys.items(id), '1:2', item);
      await pipeline.exec();
      await Promise.all(ids.map((id) => subscribers.add('1:2', id)));
    }
    await subscribers.close();

    const alerted = async () => {
      const profiles: string[] = [];
      for (let from = '-'; ; ) {
        const page = await client.xrange(keys.events(0), from, '+', 'COUNT', PAGE);
        for (const [, [, , , lines = '']] of page)
          for (const line of lines.trim().split('\n')) {
            const { origin, profile_id } = JSON.parse(line) as { origin: string; profile_id: string };
            if (origin === 'alert') profiles.push(profile_id);
          }
        if (page.length < PAGE) return profiles;
        from = `(${page.at(-1)?.[0]}`;
      }
    };
    const count = async () => (await alerted()).length;
    const body = productOf('1', { variantId: '2', price: '70.00' });
    const answer = await app.send('PUT', '/products', body, TRUSTED);
    t.equal(answer.text, '{"productId":"1"}');
    t.ok((await count()) < SUBSCRIBERS, 'answered before all are alerted');
    const { profileId } = await app.shop.add({ sessionId: 'small' }, { productId: '3', price: '80.00' });
    await app.send('PUT', '/products', productOf('3', { price: '70.00' }), TRUSTED);
    await until('a product with one subscriber has its turn', async () =>
      (await alerted()).includes(profileId),
    );
    t.ok((await count()) < SUBSCRIBERS, 'while the alerts of another product are being sent');
    await app.close();
    t.ok((await count()) < SUBSCRIBERS, 'a process that ends leaves the rest to another');
    const env = { ...ALERTS, VISIT_LOG: 'off' };
    const extras = extrasWith(alertsWith({ scanMs: 100 }), alerts);
    const next = await startApp(t, redis, { prefix: app.prefix, env, extras });
    let visits = 0;
    const isRemoved = async () => {
      await next.shop.visit({ sessionId: 'beside' });
      visits++;
      return (await client.exists(alertKeys(keys).products)) === 0;
    };
    const untilRemoved = () => until('it is removed from the journal', isRemoved, 300_000);
    await untilRemoved();
    t.ok(visits > 1, `${visits} visits beside it`);
    const all = SUBSCRIBERS + 1;
    t.same([await count(), new Set(await alerted()).size], [all, all], 'each once');
    t.equal((await next.send('PUT', '/products', body, TRUSTED)).status, 200);
    await untilRemoved();
    t.equal(await count(), all, 'a repeat alerts nobody');
  },
);

const LEFT = 1_100;
t.test('all products in the journal are done, and the metrics show one that fails', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const prefix = 'open';
  const { products } = alertKeys(createKeys(prefix));
  const ids = Array.from({ length: LEFT }, (_, i) => String(1_000 + i));
  const written = ids.flatMap((id) => [id, `1 0\n${JSON.stringify({ ...product('1.00'), productId: id })}`]);
  await client.hset(products, ...written, 'faulty', '1 0\nno product');
  const failures: string[] = [];
  const app = await startApp(t, redis, {
    ...{ prefix, env: ALERTS, extras: extrasWith(alertsWith({ scanMs: 50 }), alerts) },
    onError: (line) => failures.push(line),
  });
  await until(
    'all others are removed from the journal',
    async () => (await client.hlen(products)) === 1,
    300_000,
  );
  t.equal(await app.figure('products_open'), 1);
  const age = () => app.figure('products_oldest_open_seconds');
  await until('its age grows from look to look', async () => ((await age()) ?? 0) > 1);
  t.ok(failures.length > 0, 'its failure is logged');
  await client.hdel(products, 'faulty');
  t.equal(await app.figure('products_open'), 0);
  t.equal(await age(), 0);
});

const SETTINGS = { ...ALERTS, RECEIVERS_PRIVATE: 'allow', ERASURE_INTERVAL_S: '60' };
t.test('alerts from PUT /products to receivers, analysts and exports', async (t) => {
  const { redis, clickhouse, env } = await startStores(t, ['wishmeter']);
  const settings = { ...env, ...SETTINGS };
  const ofServe = { ...SETTINGS, CLICKHOUSE_URL: env.CLICKHOUSE_URL };
  const app = await startApp(t, redis, { prefix: 'wm', env: ofServe });
  runWishmeter(t, { args: ['flush'], env: settings });
  runWishmeter(t, { args: ['deliver'], env: settings });
  const client = connectToClickHouse(t, clickhouse.url, 'wishmeter');
  const rows = (query: string) => select(client, query);
  const [tool, personal] = [await startTool(t), await startTool(t)];
  const receiver = (url: string, includePersonal: boolean) =>
    app.post('/receivers', { url, types: ['priceDrop', 'backInStock'], includePersonal }, TRUSTED);
  const made = (await receiver(tool.url, false)).json;
  [tool.secret, personal.secret] = [made.secret, (await receiver(personal.url, true)).json.secret];

  const ids = { customerId: '7', sessionId: 's-1' };
  const item = {
    ...{
      productId: '1001',
      variantId: '2002',
      price: '79.90',
      currencyCode: 'EUR',
      inventoryAvailable: false,
    },
    ...{ productHandle: 'old-shoe', productTitle: 'As it was called' },
  };
  await app.shop.add({ sessionId: 's-1', email: 'ann@shop.example' }, item);
  await app.shop.login(ids);
  const other = { ...item, variantId: null, price: '60.00' };
  const { profileId } = await app.shop.add({ sessionId: 's-2' }, other);

  await t.test(
    'each receiver gets the alert of each subscriber once, with personal data only if it may have them',
    async (t) => {
      const variant = { variantId: 'gid://shopify/ProductVariant/2002', price: '59.90', currencyCode: 'eur' };
      t.same(await put(app, 'gid://shopify/Product/1001', variant), [2, 2]);
      await until('four deliveries', () => tool.delivered.length >= 4 && personal.delivered.length >= 4);
      const contract = new Contract((await app.get('/openapi.json')).json);
      for (const { body, id } of [...tool.delivered, ...personal.delivered]) {
        t.equal(contract.deliveryFault('alert', body), undefined);
        t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      }
      const drops = tool.delivered.filter(({ body }) => body.type === 'priceDrop').map(({ body }) => body);
      const product = { productId: '1001', productHandle: 'red-shoe', productTitle: 'Red shoe' };
      const common = { ...product, price: '59.90', currencyCode: 'EUR' };
      const byCustomer = drops.find(({ data }) => data.customerId === '7');
      t.same(byCustomer?.data, {
        ...{ profileId: byCustomer?.data.profileId, ...ids },
        ...{ ...common, variantId: '2002', priceBefore: '79.90' },
      });
      t.same(drops.find(({ data }) => data.customerId === null)?.data, {
        ...{ profileId, customerId: null, sessionId: 's-2' },
        ...{ ...common, variantId: null, priceBefore: '60.00' },
      });
      t.same(Object.keys(byCustomer ?? {}), ['type', 'timestamp', 'data']);
      t.same(Object.keys(byCustomer?.data), [
        ...[
          'profileId',
          'customerId',
          'sessionId',
          'productId',
          'variantId',
          'productHandle',
          'productTitle',
        ],
        ...['priceBefore', 'price', 'currencyCode'],
      ]);
      const sent = personal.delivered.find(({ body }) => body.data.customerId === '7');
      t.match(sent?.body.data, { email: 'ann@shop.example', firstName: null, lastName: null });
      t.equal(new Set(tool.delivered.map(({ id }) => id)).size, 4);
      t.same([...tool.faults, ...personal.faults], []);
    },
  );

  await t.test('product_alerts shows each alert, and no other view does', async (t) => {
    t.same(
      await rows('SELECT * EXCEPT (occurred_at, profile_id) FROM product_alerts ORDER BY price_before, type'),
      [
        ['backInStock', null, 's-2', '', 60],
        ['priceDrop', null, 's-2', '', 60],
        ['backInStock', '7', 's-1', '2002', 79.9],
        ['priceDrop', '7', 's-1', '2002', 79.9],
      ].map(([type, customer_id, session_id, variant_id, price_before]) => ({
        ...{ type, customer_id, session_id, product_id: '1001', variant_id, product_handle: 'red-shoe' },
        ...{ price_before, price: 59.9, currency: 'EUR' },
      })),
    );
    t.same(await rows('SELECT type, toUInt32(count()) AS n FROM events GROUP BY type'), [
      { type: 'add', n: 2 },
    ]);
    t.same(await rows('SELECT DISTINCT step FROM steps_stored'), [{ step: 'add' }]);
    t.same(await rows('SELECT toUInt32(sum(events)) AS n FROM events_per_day'), [{ n: 2 }]);
    t.same(await rows('SELECT toUInt32(adds) AS adds FROM top_products'), [{ adds: 2 }]);
  });

  await t.test("an export has the visitor's alerts next to the events", async (t) => {
    const { events, productAlerts } = await app.shop.exported({ customerId: '7' });
    t.equal(events.length, 1);
    t.match(events, [{ type: 'add' }]);
    const byType = [...productAlerts].sort((one, other) => (one.type < other.type ? -1 : 1));
    t.match(byType, [
      { type: 'backInStock', price: '59.90' },
      { type: 'priceDrop', price: '59.90', price_before: '79.90', customer_id: '7' },
    ]);
  });

  await t.test("an erasure removes the visitor's alerts, and leaves those of others", async (t) => {
    await app.shop.erase({ customerId: '7' });
    t.equal((await app.get('/profile?customerId=7', TRUSTED)).status, 404);
    t.same((await app.shop.exported({ sessionId: 's-2' })).productAlerts.length, 2);
  });
});

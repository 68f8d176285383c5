// PUT /products and POST /webhook/products: what they take, who may send it, and that they keep nothing while alerts are off.

import { createHmac } from 'node:crypto';
import t, { type Test } from 'tap';
import { alertKeys } from '../../../src/extras/alerts/keys.js';
import { createKeys } from '../../../src/redis/keys.js';
import { startApp, type TestApp, TRUSTED } from '../../harness/app.js';
import type { Headers } from '../../harness/client.js';
import { dumpRedis } from '../../harness/dump.js';
import { connectTo, startTestRedis } from '../../harness/redis.js';
import { rowsOf } from '../../harness/stream.js';
import { until } from '../../harness/until.js';
import { ALERTS, alertsOf, productOf, put, putAt, putProduct, subscribersOf } from './fixtures.js';

const PATH = '/webhook/products';
const SECRET = 'hush-hush-hush-hush';
const JSON_TYPE = { 'content-type': 'application/json' };
const SIGNED = { ...ALERTS, SHOPIFY_SECRET: SECRET };

/** As Shopify's products/update has it. */
const shopifyProduct = (id: number | string, changes: object = {}, ...variants: object[]) => ({
  id,
  admin_graphql_api_id: `gid://shopify/Product/${id}`,
  title: 'Red shoe',
  handle: 'red-shoe',
  status: 'active',
  vendor: 'Shoes',
  updated_at: '2026-11-18T12:06:40+01:00',
  variants: variants.map((one) => ({
    product_id: id,
    title: '42',
    price: '79.90',
    compare_at_price: null,
    inventory_management: 'shopify',
    inventory_policy: 'deny',
    inventory_quantity: 3,
    ...one,
  })),
  ...changes,
});

function deliver(app: TestApp, product: object | string, headers: Headers = {}) {
  const body = typeof product === 'string' ? product : JSON.stringify(product);
  const signature = createHmac('sha256', SECRET).update(body).digest('base64');
  return app.post(PATH, body, {
    ...JSON_TYPE,
    'x-shopify-topic': 'products/update',
    'x-shopify-hmac-sha256': signature,
    ...headers,
  });
}

t.test('analysts get each version of a product: its prices by currency, and its stock', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: { ...SIGNED, SHOP_CURRENCY: 'EUR' } });
  const rows = async () =>
    (await rowsOf(redis, app))
      .filter(({ origin }) => origin === 'product')
      .map(({ type, profile_id, product_id, product_handle, payload }) => ({
        ...{ type, profile_id, product_id, product_handle, payload: JSON.parse(String(payload)) },
      }));
  const row = { type: 'product', profile_id: '', product_id: '7', product_handle: 'red-shoe' };
  await put(
    app,
    'gid://shopify/Product/7',
    { variantId: '71', price: '19.99', currencyCode: 'usd' },
    { variantId: '72', price: '18.00', inventoryAvailable: false },
  );
  const variants = [
    ['71', 'USD', '19.99', true],
    ['72', 'EUR', '18.00', false],
    // An item without a currency has the shop's.
    ['72', '', '18.00', false],
  ];
  t.same(await rows(), [{ ...row, payload: { productTitle: 'Red shoe', variants } }]);
  const { updated_at, ...later } = shopifyProduct(7, {}, { id: 71, price: '15.00', inventory_quantity: 0 });
  t.equal((await deliver(app, later)).status, 200);
  await until('the version of the webhook is a row', async () => (await rows()).length === 2);
  const line = ['15.00', false];
  t.same((await rows())[1]?.payload.variants.flat(), ['71', 'EUR', ...line, '71', '', ...line]);
  t.same(await alertsOf(redis, app), [], 'and no subscriber, since there is none');
});

t.test('product operations', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: SIGNED });
  const typesOf = async (productId: string) =>
    (await alertsOf(redis, app)).filter((row) => row['product_id'] === productId).map(({ type }) => type);
  const delivered = async (t: Test, product: { id: number | string }, headers?: Headers) => {
    const answer = await deliver(app, product, headers);
    t.equal(answer.status, 200);
    t.equal(answer.text, '{}');
    const { products } = alertKeys(createKeys(app.prefix));
    await until(
      'it is removed from the journal',
      async () => (await dumpRedis(redis, app.prefix))[products] === undefined,
    );
    return typesOf(String(product.id));
  };

  t.test('a wrong product is 400 with every fault, and changes nothing', async (t) => {
    const variants = [
      { price: 59.9, inventoryAvailable: 'yes' },
      {
        ...{ price: '59.9', inventoryAvailable: true, currencyCode: 'EURO' },
        variantId: 'gid://shopify/Product/1',
      },
    ];
    const wrong = { productId: 'gid://shopify/ProductVariant/1', productHandle: '', variants };
    const faults = ['/productHandle', '/productId', '/productTitle', '/variants/0/inventoryAvailable'];
    const wrongs = ['0/price', '1/currencyCode', '1/price', '1/variantId'];
    faults.push(...wrongs.map((path) => `/variants/${path}`));
    const variantId = 'gid://shopify/ProductVariant/50000000000001';
    const prices = { price: '10000.00', compareAt: '10000.00', currencyCode: 'EUR' };
    const fitting = { variantId, ...prices, inventoryAvailable: true };
    for (const [body, paths] of [
      [wrong, faults],
      [{ ...productOf('1'), variants: [] }, ['/variants']],
      [{ ...productOf('1'), variants: Array(2_049).fill(fitting) }, ['/variants']],
    ] as const) {
      const { status, json } = await app.send('PUT', '/products', body, TRUSTED);
      t.equal(status, 400);
      t.same(json.issues.map(({ path }: { path: string }) => path).sort(), paths);
    }
    t.same(await put(app, '1', ...Array(2_048).fill(fitting)), [0, 0], 'the most variants that it may have');
    t.equal((await app.send('PUT', '/products', productOf('1', { price: '1.00' }))).status, 401);
  });

  t.test(
    'blank fields of a product mean null, its title becomes one line, and its alert adds bytes to the item',
    async (t) => {
      const who = { sessionId: 'blank' };
      await app.shop.add(who, { productId: '12', price: '80.00' });
      const blank = { variantId: '', price: '70.00', compareAt: ' ', currencyCode: '' };
      const body = { ...productOf('12', blank), productTitle: 'Red\nshoe' };
      t.same(await putProduct(app, body), [1, 0]);
      const row = (await alertsOf(redis, app)).find(({ product_id }) => product_id === '12');
      t.match(JSON.parse(String(row?.['payload'])), { variantId: null, productTitle: 'Red shoe' });
      const { profileId } = await app.shop.exported(who);
      const node = connectTo(t, redis.url);
      const keys = createKeys(app.prefix);
      const [item = ''] = await node.hvals(keys.items(profileId));
      t.equal(await node.hget(keys.profile(profileId), 'itemBytes'), String(Buffer.byteLength(item)));
    },
  );

  t.test('a product at the price at which it was saved changes no item', async (t) => {
    const { profileId } = await app.shop.add({ sessionId: 'saved' }, { productId: 'saved', price: '80.00' });
    const node = connectTo(t, redis.url);
    const saved = () => node.hvals(createKeys(app.prefix).items(profileId));
    const before = await saved();
    t.same(await putAt(app, 'saved', '80.00'), [0, 0]);
    t.same(await saved(), before);
  });

  t.test(
    'a repeated PUT /products under an Idempotency-Key gets the first answer, and is done once',
    async (t) => {
      await app.shop.add({ sessionId: 'key' }, { productId: '10', price: '80.00' });
      const ask = (price: string) =>
        app.send('PUT', '/products', productOf('10', { price }), { ...TRUSTED, 'idempotency-key': 'k' });
      t.equal((await ask('70.00')).text, '{"productId":"10"}');
      await until('the alert is sent', async () => (await typesOf('10')).length === 1);
      t.same(await putAt(app, '10', '80.00'), [0, 0]);
      t.equal((await ask('70.00')).text, '{"productId":"10"}');
      t.equal((await ask('60.00')).status, 422);
      t.equal(await app.figure('products_open'), 0, 'nothing is done again');
      t.same(await typesOf('10'), ['priceDrop']);
    },
  );

  t.test(
    'PUT /products keeps the product if the stream is at its high-water mark, and its alerts are sent later',
    async (t) => {
      const { prefix } = app;
      await app.shop.add({ sessionId: 'full' }, { productId: '11', price: '80.00' });
      const small = await startApp(t, redis, { prefix, env: { ...SIGNED, STREAM_HIGH_WATER: '1' } });
      const kept = await small.send('PUT', '/products', productOf('11', { price: '70.00' }), TRUSTED);
      t.equal(kept.status, 200);
      t.same(await typesOf('11'), []);
      t.equal(await app.figure('products_open'), 1);
      t.same(await putAt(app, '11', '70.00'), [1, 0]);
    },
  );

  t.test(
    'stock is read from the inventory fields of a variant, and a variant without them changes nothing',
    async (t) => {
      let productId = 5_000;
      const [BACK, NOTHING] = [['backInStock'], []];
      const none = {
        inventory_management: undefined,
        inventory_policy: undefined,
        inventory_quantity: undefined,
      };
      for (const [variant, expected] of [
        [{ inventory_quantity: '1' }, BACK],
        [{ inventory_quantity: -1 }, NOTHING],
        [{ inventory_policy: 'continue' }, BACK],
        [{ inventory_policy: 'continue', inventory_quantity: -3 }, BACK],
        [{ inventory_management: null, inventory_quantity: 0 }, BACK],
        [{ inventory_management: 'shopify', inventory_quantity: 0 }, NOTHING],
        [{ inventory_policy: 'deny' }, NOTHING],
        [{ inventory_quantity: null }, NOTHING],
      ] as const) {
        const id = productId++;
        for (const variantId of ['1', null])
          await app.shop.add(
            { sessionId: `stock-${variantId}` },
            { productId: String(id), variantId, price: '79.90', inventoryAvailable: false },
          );
        const alerts = await delivered(t, shopifyProduct(id, {}, { id: 1, ...none, ...variant }));
        t.same(alerts, [...expected, ...expected], JSON.stringify(variant));
      }
      const id = productId++;
      const kept = { productId: String(id), variantId: '1', price: '79.90' };
      await app.shop.add({ sessionId: 'stock-kept' }, kept);
      t.same(await delivered(t, shopifyProduct(id, {}, { id: 1, inventory_quantity: 0 })), NOTHING);
      t.same(await delivered(t, shopifyProduct(id, {}, { id: 1, ...none })), NOTHING);
      t.same(await delivered(t, shopifyProduct(id, {}, { id: 1, inventory_quantity: 5 })), BACK);
      t.same(await delivered(t, shopifyProduct(id, {}, { id: 1, ...none })), BACK);
      t.same(
        await delivered(t, shopifyProduct(id, {}, { id: 1, inventory_quantity: 4 })),
        BACK,
        'no restock',
      );
    },
  );

  t.test(
    'an unpublished product causes no alert, and is compared with its former state when published again',
    async (t) => {
      const UNPUBLISHED = [{ status: 'draft' }, { status: 'archived' }, { published_at: null }];
      for (const [i, changes] of UNPUBLISHED.entries()) {
        const id = 1_200 + i;
        const wish = { productId: String(id), variantId: '1', price: '79.90', inventoryAvailable: false };
        await app.shop.add({ sessionId: 'draft' }, wish);
        const sold = { id: 1, inventory_quantity: 0 };
        t.same(await delivered(t, shopifyProduct(id, changes, { id: 1, price: '10.00' })), []);
        t.same(await delivered(t, shopifyProduct(id, {}, { ...sold, price: '70.00' })), ['priceDrop']);
        t.same(await delivered(t, shopifyProduct(id, changes, { ...sold, price: '75.00' })), ['priceDrop']);
        t.same(await delivered(t, shopifyProduct(id, {}, { ...sold, price: '70.00' })), ['priceDrop']);
        const back = { published_at: '2026-11-18T12:06:40+01:00' };
        const both = await delivered(t, shopifyProduct(id, back, { id: 1, price: '70.00' }));
        t.same(both.sort(), ['backInStock', 'priceDrop']);
      }
      await app.shop.add({ sessionId: 'hidden' }, { productId: '1210', price: '80.00' });
      const body = productOf('1210', { price: '70.00' });
      t.same(await putProduct(app, { ...body, isPublished: false }), [0, 0]);
      const wrong = await app.send('PUT', '/products', { ...body, isPublished: 'no' }, TRUSTED);
      t.match(wrong.json, { issues: [{ path: '/isPublished' }] });
      t.same(await putProduct(app, { ...body, isPublished: null }), [1, 0]);
    },
  );

  t.test('a webhook with only some variants of a product alerts only for these', async (t) => {
    const [id, productId] = [1_220, '1220'];
    for (const variantId of ['1', '2', null])
      await app.shop.add({ sessionId: `part-${variantId}` }, { productId, variantId, price: '79.90' });
    const gids = (count: number) => ({
      variant_gids: Array.from({ length: count }, (_, i) => ({
        admin_graphql_api_id: `gid://shopify/ProductVariant/${i + 1}`,
      })),
    });
    const alerts = async () =>
      (await alertsOf(redis, app))
        .filter((row) => row['product_id'] === productId)
        .map(({ variant_id = 'product', price }) => `${variant_id} ${price}`);
    await delivered(t, shopifyProduct(id, gids(2), { id: 1, price: '59.90' }));
    t.same(await alerts(), ['1 59.90']);
    for (const price of [null, '9999999999999999.995'])
      await delivered(t, shopifyProduct(id, {}, { id: 1, price: '59.90' }, { id: 2, price }));
    t.same(await alerts(), ['1 59.90'], 'nor is the whole judged without the price of a variant');
    await delivered(t, shopifyProduct(id, gids(1), { id: 1, price: '59.90' }));
    t.same(await alerts(), ['1 59.90', 'product 59.90']);
  });

  t.test('a price is compared within one currency, and without SHOP_CURRENCY none is assumed', async (t) => {
    const unknown = await startApp(t, redis, { env: { ...SIGNED, SHOP_CURRENCY: '' } });
    for (const [i, [ours, wished, offered, drops]] of (
      [
        [app, 'JPY', undefined, 0],
        [app, 'eur', undefined, 1],
        [app, undefined, 'EUR', 1],
        [app, undefined, 'USD', 0],
        [app, undefined, undefined, 1],
        [unknown, 'EUR', undefined, 0],
        [unknown, undefined, 'EUR', 0],
        [unknown, undefined, undefined, 0],
        [unknown, 'eur', 'Eur', 1],
      ] as const
    ).entries()) {
      const productId = String(1_230 + i);
      const wish = { productId, price: '3000.00', currencyCode: wished, inventoryAvailable: false };
      await ours.shop.add({ sessionId: 'currency' }, wish);
      const name = `wished in ${wished}, offered in ${offered}`;
      t.same(await put(ours, productId, { price: '19.99', currencyCode: offered }), [drops, 1], name);
    }
    const codes = (await app.shop.items({ sessionId: 'currency' })).map(({ currencyCode }) => currencyCode);
    t.same([...new Set(codes)].sort(), ['EUR', 'JPY', null]);
  });

  t.test('an updated_at in the future does not outrank later deliveries', async (t) => {
    await app.shop.add({ sessionId: 'future' }, { productId: '1240', variantId: '1', price: '80.00' });
    const at = (updated_at: string, price: string) => shopifyProduct(1240, { updated_at }, { id: 1, price });
    const before = (await app.figure('products_of_future_total')) ?? 0;
    t.same(await delivered(t, at('2099-01-01T00:00:00Z', '70.5')), ['priceDrop']);
    t.match((await alertsOf(redis, app)).at(-1), { price: '70.50' });
    t.equal(await app.figure('products_of_future_total'), before + 1);
    const soon = at(new Date(Date.now() + 1_000).toISOString(), '60.00');
    t.same(await delivered(t, soon), ['priceDrop', 'priceDrop']);
  });

  t.test(
    'a product webhook with an earlier updated_at does nothing, and a repeat nothing more',
    async (t) => {
      await app.shop.add({ sessionId: 'late' }, { productId: '13', variantId: '1', price: '80.00' });
      const at = (minute: number, price: string) =>
        shopifyProduct(13, { updated_at: `2026-11-18T12:${minute}:00+01:00` }, { id: 1, price });
      t.same(await delivered(t, at(20, '80.00')), []);
      t.same(await delivered(t, at(10, '70.00')), [], 'an older version, which alerted nobody');
      t.same(await delivered(t, at(20, '70.00')), ['priceDrop']);
      t.same(await delivered(t, at(20, '70.00')), ['priceDrop'], 'a repeat');
      t.same(await delivered(t, at(10, '75.00')), ['priceDrop'], 'an older one');
      t.same(await delivered(t, at(20, '70.00')), ['priceDrop'], 'what the older one would have changed');
      t.same(await delivered(t, at(30, '60.00')), ['priceDrop', 'priceDrop']);
      t.same(await delivered(t, shopifyProduct(13, { updated_at: 'soon' }, { id: 1, price: '50.00' })), [
        ...['priceDrop', 'priceDrop', 'priceDrop'],
      ]);
    },
  );

  t.test('a product webhook keeps ids with more digits than a number holds', async (t) => {
    const productId = '820982911946154508';
    await app.shop.add({ sessionId: 'long' }, { productId, variantId: productId, price: '80.00' });
    const body = JSON.stringify(shopifyProduct(1, {}, { id: 1, price: '70.00' }));
    t.equal((await deliver(app, body.replaceAll('"id":1', `"id":${productId}`))).status, 200);
    await until('the alert is sent', async () => (await typesOf(productId)).length === 1);
  });

  t.test('a product webhook without a product is answered 200, left out and counted', async (t) => {
    const before = (await app.figure('products_left_out_total{reason="body"}')) ?? 0;
    const bodies = ['{"id":', '[]', 'null', '', '{}', JSON.stringify({ id: 'gid://shopify/Order/1' })];
    for (const body of bodies) t.match(await deliver(app, body), { status: 200, text: '{}' }, body);
    t.equal(await app.figure('products_left_out_total{reason="body"}'), before + bodies.length);
    t.equal((await deliver(app, '{"id":', { 'x-shopify-hmac-sha256': '' })).status, 401);
  });

  t.test('a product webhook of another topic is answered 200, left out and counted', async (t) => {
    await app.shop.add({ sessionId: 'topic' }, { productId: '15', variantId: '1', price: '80.00' });
    const product = shopifyProduct(15, {}, { id: 1, price: '70.00' });
    const before = (await app.figure('products_left_out_total{reason="topic"}')) ?? 0;
    t.same(await delivered(t, product, { 'x-shopify-topic': 'products/delete' }), []);
    t.equal(await app.figure('products_left_out_total{reason="topic"}'), before + 1);
    t.same(await delivered(t, product, { 'x-shopify-topic': 'products/create' }), ['priceDrop']);
  });

  t.test('alerts that wait for room in the stream are sent without another request', async (t) => {
    const prefix = 'wait';
    const ours = await startApp(t, redis, { prefix, env: { ...SIGNED, STREAM_HIGH_WATER: '2000' } });
    await ours.shop.add({ sessionId: 'w' }, { productId: '1', variantId: '1', price: '80.00' });
    const keys = createKeys(prefix);
    const client = connectTo(t, redis.url);
    const bytes = Number(await client.hget(keys.eventsState(0), 'bytes'));
    await client.hset(keys.eventsState(0), 'bytes', 2_000);
    t.equal((await deliver(ours, shopifyProduct(1, {}, { id: 1, price: '70.00' }))).status, 200);
    const count = async () => (await alertsOf(redis, { prefix })).length;
    t.equal(await count(), 0);
    await client.hset(keys.eventsState(0), 'bytes', bytes);
    await until('the alert is sent', async () => (await count()) === 1);
    await until(
      'it is removed from the journal',
      async () => (await client.exists(alertKeys(keys).products)) === 0,
    );
  });
});

t.test(
  'with PRODUCT_ALERTS off products are validated, no alert is sent, and nothing is stored',
  async (t) => {
    const redis = await startTestRedis(t);
    const off = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
    const on = await startApp(t, redis, { env: SIGNED });
    for (const app of [off, on]) await app.shop.add({ sessionId: 's' }, { productId: '1', price: '80.00' });
    const before = await dumpRedis(redis, off.prefix);
    t.same(await putAt(off, '1', '70.00'), [0, 0]);
    t.equal((await deliver(off, shopifyProduct(1, {}, { id: 1, price: '70.00' }))).status, 200);
    t.equal((await off.send('PUT', '/products', {}, TRUSTED)).status, 400);
    t.equal((await deliver(off, {}, { 'x-shopify-hmac-sha256': '' })).status, 401);
    t.same(await dumpRedis(redis, off.prefix), before);
    t.same(await subscribersOf(redis, off), []);
    const itemsOf = async (app: TestApp) => {
      const entries = Object.entries(await dumpRedis(redis, app.prefix)).filter(([key]) =>
        key.includes(':i:'),
      );
      return entries.map(([, items]) => Object.values(items as Record<string, string>)[0]?.split('\n')[1]);
    };
    t.match(await itemsOf(off), [/^\S+Z$/]);
    t.match(await itemsOf(on), [/^\S+Z \[null,"s"\]$/]);
  },
);

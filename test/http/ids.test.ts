// Ids as shops have them: integers, text and gids name the same thing, and are kept as they are compared. Handles are
// trimmed. What JSON.parse has rounded, and a gid of another thing, are refused.

import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, proxied, SECRET } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { eventsOf } from '../harness/stream.js';
import { itemOf } from './wishlist.js';

const JSON_TYPE = { 'content-type': 'application/json' };
/** Of Shopify's test notification; JSON.parse reads it as …500. */
const ROUNDED = '{"identity":{"customerId":820982911946154508},"productHandle":"x"}';

t.test('ids', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  const visit = (identity: object, productHandle = 'x') =>
    app.post('/product/visit?count=true', { identity, productHandle }, TRUSTED);

  t.test('of a customer: integer, text and gid are one', async (t) => {
    const ids = [42, '42', ' 42 ', 'gid://shopify/Customer/42', ' gid://shopify/Customer/42 '];
    const counts = [];
    for (const customerId of ids) counts.push((await visit({ customerId })).json.count);
    t.same(counts, [1, 2, 3, 4, 5]);
    const read = withQuery('/product/visit', {
      customerId: 'gid://shopify/Customer/42',
      productHandle: ' x ',
    });
    t.equal((await app.get(read, TRUSTED)).json.count, 5);
  });

  t.test('of a product and its variant: one item, told as digits', async (t) => {
    const identity = { sessionId: 'shopper' };
    const ids: [unknown, unknown][] = [
      [1001, 2002],
      ['1001', '2002'],
      ['gid://shopify/Product/1001', 'gid://shopify/ProductVariant/2002'],
    ];
    for (const [productId, variantId] of ids) {
      const added = await app.post('/item/add', { ...itemOf(identity), productId, variantId }, TRUSTED);
      t.match(added, { status: 200, json: { productId: '1001', variantId: '2002' } });
    }
    t.equal((await app.post('/item/list', { identity }, TRUSTED)).json.items.length, 1);
    const removed = await app.post('/item/remove', { identity, productId: 1001, variantId: 2002 }, TRUSTED);
    t.match(removed.json, { removed: true, productId: '1001', variantId: '2002' });
  });

  t.test('of an event’s payload have their columns, whatever they come as', async (t) => {
    for (const [productId, variantId] of [
      [7, 8],
      ['gid://shopify/Product/7', 'gid://shopify/ProductVariant/8'],
    ]) {
      const identity = { sessionId: `payload ${productId}` };
      await app.post('/event', { identity, type: 'add', payload: { productId, variantId } }, TRUSTED);
      const [event] = await eventsOf(redis, app, identity);
      t.match(event, { product_id: '7', variant_id: '8' });
    }
  });

  t.test('of another thing, or rounded, are 400 and say why', async (t) => {
    const item = itemOf({ sessionId: 'wrong' });
    const wrong: [path: string, body: object, field: string, message: RegExp][] = [
      ['/item/add', { ...item, productId: 'gid://shopify/ProductVariant/1' }, '/productId', /than Product$/],
      ['/item/add', { ...item, variantId: 'gid://shopify/Product/1' }, '/variantId', /than ProductVariant$/],
      ['/item/add', { ...item, productId: 0 }, '/productId', />= 1/],
      ['/item/add', { ...item, productId: -5 }, '/productId', />= 1/],
      ['/item/add', { ...item, variantId: 2 ** 53 }, '/variantId', /send a larger one as text/],
      ['/item/remove', { ...item, productId: 2 ** 53 }, '/productId', /9007199254740991/],
      [
        '/product/visit',
        { identity: { customerId: 'gid://shopify/Order/1' }, productHandle: 'x' },
        '/identity/customerId',
        /than Customer$/,
      ],
      ['/product/visit', { identity: { customerId: 0 }, productHandle: 'x' }, '/identity/customerId', />= 1/],
      ['/product/visit', JSON.parse(ROUNDED), '/identity/customerId', /send a larger one as text/],
    ];
    for (const [path, body, field, message] of wrong)
      t.match(await app.post(path, body, TRUSTED), {
        status: 400,
        json: { code: 'invalid_request', issues: [{ path: field, message }] },
      });
    t.equal(
      (await app.post('/product/visit', ROUNDED, { ...TRUSTED, ...JSON_TYPE })).status,
      400,
      'as bytes',
    );
    const largest = { customerId: Number.MAX_SAFE_INTEGER };
    t.equal((await visit(largest)).status, 200, 'the largest that is exact');
  });

  t.test('handles are trimmed, wherever they come', async (t) => {
    const identity = { sessionId: 'trimmer' };
    t.match((await visit(identity, ' red-shoe\u00a0')).json, { productHandle: 'red-shoe', count: 1 });
    const list = { identity, productHandles: ['red-shoe ', 'red-shoe', ' hat'] };
    t.same((await app.post('/product/visit/list', list, TRUSTED)).json.counts, { 'red-shoe': 1, hat: 0 });
    const batch = { visits: [{ identity, productHandle: ' red-shoe' }] };
    const { results } = (await app.post('/product/visit/batch?count=true', batch, TRUSTED)).json;
    t.match(results, [{ productHandle: 'red-shoe', count: 2 }]);
    t.equal((await visit(identity, ' ')).status, 400, 'nothing is left');
    t.equal((await visit(identity, `${' '.repeat(300)}x`)).status, 200, 'what is trimmed does not count');
  });

  t.test('of a customer who is logged in need not be sent through the app proxy', async (t) => {
    const body = { productHandle: 'proxied' };
    const counted = await postProxied(app, '/product/visit', '77', body);
    t.match(counted, { status: 200, json: { productHandle: 'proxied' } });
    const read = proxied('/product/visit', { logged_in_customer_id: '77', productHandle: 'proxied' });
    t.match(await app.get(read), { status: 200, json: { count: 1, profileId: counted.json.profileId } });
    const item = { ...itemOf({}), identity: undefined };
    t.equal((await postProxied(app, '/item/add', '77', item)).status, 200);
    const { items } = (await app.post('/item/list', { identity: { customerId: 77 } }, TRUSTED)).json;
    t.equal(items.length, 1);
    t.equal((await postProxied(app, '/product/visit', '', body)).status, 400, 'no customer is logged in');
    t.equal((await app.post('/product/visit', body, TRUSTED)).status, 400, 'a key names no customer');
    t.equal(
      (await postProxied(app, '/item/list', '77', undefined)).status,
      400,
      'a body is needed all the same',
    );
  });
});

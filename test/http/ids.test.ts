// What ids, handles and queries mean: integers, text and gids name the same thing; any text is a name like any other;
// handles are trimmed; what JSON.parse has rounded, and a gid of another thing, are refused.

import { parse } from 'node:querystring';
import fc from 'fast-check';
import t from 'tap';
import { parseQuery } from '../../src/http/query.js';
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

  t.test('integer, text and gid of a customer are one, with blanks around or not', async (t) => {
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

  t.test('ids and handles that are names of things are just names', async (t) => {
    const names = [
      '__proto__',
      'constructor',
      'hasOwnProperty',
      '{x}',
      '{}',
      '*',
      '[a-z]',
      '?',
      'a:b',
      "o'clock",
      '"quoted"',
      'back\\slash',
      'two words',
      '../../etc/passwd',
      '%00',
      '%s',
      'a&b=c#d',
      'İstanbul',
      'ünïcödé',
      '日本語',
      '😀',
      '\u202eright-to-left',
      '0x10',
      '1e3',
      '-0',
      'x'.repeat(255),
      '😀'.repeat(63),
    ];
    for (const name of names) {
      const posted = await visit({ sessionId: name }, name);
      t.match(posted, { status: 200, json: { productHandle: name, count: 1 } }, name.slice(0, 20));
    }
    const profiles = await Promise.all(
      names.map((name) => app.get(withQuery('/product/visit', { sessionId: name, productHandle: 'x' }))),
    );
    t.equal(
      new Set(profiles.map(({ json }) => json.profileId)).size,
      names.length,
      'each is another visitor',
    );
  });

  t.test('an id that only looks like a gid is taken as it is', async (t) => {
    const different = [
      'gid://shopify/Customer/47x',
      'gid://shopify/Customer/',
      'gid://other/Customer/4711',
      '04711',
      '4711',
    ];
    const profiles = await Promise.all(
      different.map((customerId) =>
        app.get(withQuery('/product/visit', { customerId, productHandle: 'x' }), TRUSTED),
      ),
    );
    t.equal(new Set(profiles.map(({ json }) => json.profileId)).size, different.length);
  });

  t.test('a customer and a session of the same name are two visitors', async (t) => {
    const [customer, session] = await Promise.all([
      visit({ customerId: 'same' }),
      visit({ sessionId: 'same' }),
    ]);
    t.not(customer.json.profileId, session.json.profileId);
  });

  t.test('integer, text and gid of a product and its variant are one item, which has digits', async (t) => {
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

  t.test('ids of the payload of an event have their columns, whatever they come as', async (t) => {
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

  t.test('a gid of another thing, or a rounded integer, is 400 with the reason', async (t) => {
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

  t.test('handles are trimmed in every request', async (t) => {
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

  t.test('the app proxy names the customer who is logged in where the body names none', async (t) => {
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

const piece = fc.constantFrom(
  'a',
  'sessionId',
  '__proto__',
  'toString',
  '&',
  '&',
  '=',
  '=',
  '%20',
  '+',
  'é',
  '',
  '?',
  '#',
  '%',
);
const query = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));

t.test('a query is read as node:querystring reads it', async (t) => {
  fc.assert(
    fc.property(query, (raw) => {
      // It answers what it can't decode as it can; what we make of that is told below.
      if (raw.includes('%') && /%(?!20)/.test(raw)) return;
      t.same({ ...parseQuery(raw) }, { ...parse(raw) }, JSON.stringify(raw));
    }),
    { numRuns: 1_000 },
  );
});

t.test('what is not percent-encoded UTF-8 is a lone surrogate, which no field takes', async (t) => {
  for (const wrong of ['%', '%zz', '%ff', '%c3', '%ed%a0%80'])
    t.same({ ...parseQuery(`a=${wrong}`) }, { a: '\ud800' }, wrong);
});

t.test('a parameter that is there twice has both values', async (t) => {
  t.same({ ...parseQuery('a=1&b=2&a=3') }, { a: ['1', '3'], b: '2' });
});

// The session of a logged-out customer leads to no wishlist; a signature does not prove what the visitor meant; and CORS.

import t, { type Test } from 'tap';
import { Items } from '../../src/wishlist/items.js';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { BROWSER, LOGGED_OUT, postProxied, proxied, SECRET, SHOPPERS } from '../harness/app-proxy.js';
import type { Answer, Headers } from '../harness/client.js';
import { operationsOf } from '../harness/operations.js';
import { itemOf } from './wishlist.js';

const { 'x-api-key': PUBLISHABLE, origin: SHOP } = BROWSER;
const OUTLET = 'https://outlet.example:8443';
const OTHER_ORIGIN = 'https://other.example';
const BELONGS = { status: 403, json: { code: 'session_belongs_to_customer' } };

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: SHOPPERS });

  const add = (customerId: string, sessionId: string, productId: string, of = app) =>
    postProxied(of, '/item/add', customerId, itemOf({ sessionId }, { productId }));
  const list = (customerId: string, sessionId: string, of = app) =>
    postProxied(of, '/item/list', customerId, { identity: { sessionId } });
  const listed = async (customerId: string, sessionId: string, of = app) =>
    ((await list(customerId, sessionId, of)).json.items as { productId: string }[])
      .map(({ productId }) => productId)
      .sort();

  // callers.test.ts tests this for every operation.
  async function expectClosed(t: Test, sessionId: string): Promise<void> {
    const before = await app.dump();
    const event = { identity: { sessionId, email: 'a@b.example' }, type: 'add' };
    for (const headers of [{}, { 'idempotency-key': sessionId }])
      t.match(await postProxied(app, '/event', LOGGED_OUT, event, headers), BELONGS);
    t.match(await list(LOGGED_OUT, sessionId), BELONGS);
    t.same(await app.dump(), before, 'and nothing has changed');
  }

  t.test("after a logout the customer's session opens no wishlist, however it was linked", async (t) => {
    await add(LOGGED_OUT, 'first-login', '1');
    t.same(await listed(LOGGED_OUT, 'first-login'), ['1'], 'a guest has a wishlist of their own');
    await add('10', 'first-login', '2');
    await expectClosed(t, 'first-login');
    t.same(await listed('10', 'first-login'), ['1', '2'], 'the customer finds it again');
    await add('20', 'first', '1');
    await add('20', 'pointed', '2');
    await expectClosed(t, 'pointed');
    await add(LOGGED_OUT, 'merged', '3');
    await add('20', 'merged', '4');
    await expectClosed(t, 'merged');
    await add('21', 'first', '5');
    await expectClosed(t, 'first');
    t.same(await listed('21', 'first'), ['5'], 'the next customer on the device sees their own');
    t.same(await listed('20', 'merged'), ['1', '2', '3', '4']);
  });

  t.test('a list during which its session logs in shows nothing of the customer', async (t) => {
    await app.shop.add({ customerId: '2000' }, { productId: '777' });
    await add(LOGGED_OUT, 'overtaken', '1');
    const original = Items.prototype.list;
    t.teardown(() => {
      Items.prototype.list = original;
    });
    Items.prototype.list = async function (profileId) {
      Items.prototype.list = original;
      t.equal((await add('2000', 'overtaken', '2')).status, 200);
      return original.call(this, profileId);
    };
    t.match(await list(LOGGED_OUT, 'overtaken'), BELONGS);
    t.same(await listed('2000', 'overtaken'), ['1', '2', '777']);
  });

  // The tests below cross no slots.
  if (redis.urls.length > 1) return;

  t.test(
    'after a logout the session may still count visits, a new session is a guest, and servers may do all',
    async (t) => {
      const identity = { sessionId: 'shared' };
      await add('40', 'shared', '1');
      const visit = { identity, productHandle: 'x' };
      for (const count of [1, 2]) {
        t.equal((await postProxied(app, '/product/visit', LOGGED_OUT, visit)).status, 200);
        t.equal(await app.shop.count(identity, 'x'), count);
      }
      const readable = { status: 200, headers: { 'access-control-allow-origin': SHOP } };
      t.match(await app.post('/product/visit', visit, BROWSER), readable);
      t.match(await app.post('/share', { identity: { sessionId: 'by key' } }, BROWSER), readable);
      t.equal((await app.del('/product/visit', visit)).status, 200);
      t.equal((await add(LOGGED_OUT, 'the-next-person', '9')).status, 200);
      t.same(await listed(LOGGED_OUT, 'the-next-person'), ['9']);
      t.match(await app.shop.items(identity), [{ productId: '1' }]);
      await app.shop.add(identity);
    },
  );

  t.test('LINKED_SESSIONS=open lets a session act for its customer, but not in a browser', async (t) => {
    const open = await startApp(t, redis, { env: { ...SHOPPERS, LINKED_SESSIONS: 'open' } });
    await add('50', 'open', '1', open);
    t.same(await listed(LOGGED_OUT, 'open', open), ['1']);
    const identity = { sessionId: 'open' };
    const event = { identity, type: 'share' };
    t.equal((await postProxied(open, '/event', LOGGED_OUT, event)).status, 200);
    t.match(await open.events(identity), [{ type: 'share' }]);
    const before = await open.dump();
    for (const path of ['/item/list', '/item/count'])
      t.match(await open.post(path, { identity }, BROWSER), BELONGS, path);
    t.match(await open.post('/event', event, BROWSER), BELONGS);
    t.same(await open.dump(), before);
  });

  t.test('pages of other origins', async (t) => {
    const friend = 'https://friend.example';
    const evil = { origin: 'https://evil.example' };
    const env = { SHOPIFY_SECRET: SECRET, SHOP_URL: `${SHOP}/some/path`, ALLOWED_ORIGINS: friend };
    const app = await startApp(t, redis, { env });
    const identity = { sessionId: 'of-the-attacker' };
    const writes: [method: string, path: string, body: object][] = [
      ['POST', '/product/visit', { identity, productHandle: 'x' }],
      ['DELETE', '/product/visit', { identity, productHandle: 'x' }],
      ['POST', '/item/add', itemOf(identity)],
    ];
    const sendWrites = async (headers: Headers, check: (answer: Answer, what: string) => void) => {
      for (const [method, path, body] of writes) {
        const typed = { 'content-type': 'application/json', ...headers };
        const answer = await app.send(method, proxied(path, { logged_in_customer_id: '7' }), body, typed);
        check(answer, `${method} ${path} ${JSON.stringify(headers)}: ${answer.text}`);
      }
    };

    t.test("a page of another origin can't write as the logged-in customer: it gets 403", async (t) => {
      const before = await app.dump();
      const sameOrigin = { 'sec-fetch-site': 'same-origin' };
      const crossSite = { 'sec-fetch-site': 'cross-site' };
      const near = ['http://shop.example', 'https://other.myshopify.com', `${SHOP}:8443`];
      for (const origin of ['null', ...near, `${SHOP}.evil.example`])
        await sendWrites({ origin }, (answer, what) => t.equal(answer.status, 403, what));
      const json = { code: 'forbidden' };
      for (const headers of [{ ...evil, ...sameOrigin }, crossSite, { origin: SHOP, ...crossSite }])
        await sendWrites(headers, (answer, what) => t.match(answer, { status: 403, json }, what));
      const query = { logged_in_customer_id: '7', shop: 'evil.example' };
      const ofNoShop = await app.post(proxied('/share', query), { identity }, evil);
      t.equal(ofNoShop.status, 403, "what a query names as the shop is no host of Shopify's");
      t.same(await app.dump(), before);
    });

    t.test(
      "the shop's own pages, allowed origins, and requests that name no origin are served",
      async (t) => {
        for (const headers of [
          {},
          { origin: SHOP },
          { origin: 'https://shop.myshopify.com', 'sec-fetch-site': 'same-origin' },
          { origin: friend, 'sec-fetch-site': 'same-site' },
          { 'sec-fetch-site': 'none' },
          { referer: 'https://evil.example/' },
        ])
          await sendWrites(headers, (answer, what) => t.equal(answer.status, 200, what));
        const foreign = { ...TRUSTED, ...evil, 'sec-fetch-site': 'cross-site' };
        t.equal(
          (await app.post('/item/add', itemOf(identity), foreign)).status,
          200,
          'servers from anywhere',
        );
      },
    );

    t.test("a page of another origin can't read answers, because they have no CORS headers", async (t) => {
      const query = { logged_in_customer_id: '', sessionId: 's', productHandle: 'x' };
      const answer = await app.get(proxied('/product/visit', query), evil);
      t.equal(answer.status, 200);
      t.notOk('access-control-allow-origin' in answer.headers);
    });

    t.test('a parameter that merely ends in signature makes no caller a storefront', async (t) => {
      const visit = { identity: { sessionId: 'from-a-mail' }, productHandle: 'x' };
      t.equal((await app.post('/product/visit?utm_signature=x', visit)).status, 200);
      t.equal((await app.post('/product/visit?signature=x', visit)).status, 401);
    });

    t.test('JSON as text/plain, which any page may send, is accepted only to count a visit', async (t) => {
      const before = await app.dump();
      const headers = { ...TRUSTED, 'content-type': 'Text/Plain;charset=UTF-8' };
      const documented = await operationsOf(app);
      const others = documented.filter(({ name, body }) => body && name !== 'POST /product/visit');
      for (const { name, method, path, body } of others) {
        const answer = await app.send(method, path, body, headers);
        t.match(answer, { status: 415, json: { code: 'unsupported_media_type' } }, name);
      }
      t.ok(others.length >= 9, `${others.length} operations`);
      t.same(await app.dump(), before);
      const beacon = { identity: { sessionId: 'beacon' }, productHandle: 'x' };
      const text = { 'content-type': 'text/plain' };
      t.equal((await postProxied(app, '/product/visit', '', beacon, text)).status, 200);
    });
  });

  t.test('CORS', async (t) => {
    const env = { ALLOWED_ORIGINS: `${SHOP},${OUTLET}`, PUBLISHABLE_KEYS: PUBLISHABLE, VISIT_ACCESS: 'key' };
    const open = await startApp(t, redis, { env });
    const path = (sessionId: string, more = {}) =>
      withQuery('/product/visit', { sessionId, productHandle: 'x', ...more });
    const preflight = (app: TestApp, origin: string, path = '/product/visit') =>
      app.send('OPTIONS', path, undefined, {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type,x-api-key',
      });
    const corsHeaders = (headers: object) =>
      Object.keys(headers).filter((name) => name.startsWith('access-control-'));

    t.test('a preflight of an allowed origin is granted for two hours', async (t) => {
      for (const origin of [SHOP, OUTLET]) {
        const { status, text, headers } = await preflight(open, origin);
        const expected = { 'access-control-max-age': '7200', vary: 'Origin' };
        t.match({ status, text }, { status: 204, text: '' });
        t.match(headers, { 'access-control-allow-origin': origin, ...expected });
        t.notOk('content-length' in headers, 'a 204 has no Content-Length');
        t.same(namesIn(headers['access-control-allow-methods']), ['delete', 'get', 'head', 'post']);
        const allowed = namesIn(headers['access-control-allow-headers']);
        for (const name of ['content-type', 'x-api-key', 'idempotency-key', 'x-request-id'])
          t.ok(allowed.includes(name), name);
        t.notOk(allowed.includes('authorization'), 'secret keys have no business in a browser');
        t.notOk('access-control-allow-credentials' in headers, 'there are no cookies to allow');
        const ofItems = (await preflight(open, origin, '/item/add')).headers;
        t.match(ofItems, { 'access-control-allow-origin': origin, 'access-control-allow-methods': 'POST' });
      }
    });

    t.test('a preflight of another origin is answered without a grant', async (t) => {
      const near = [`${SHOP}.evil.example`, 'http://shop.example', `${SHOP}:444`];
      for (const origin of [OTHER_ORIGIN, 'null', ...near, '']) {
        const answer = await preflight(open, origin);
        t.equal(answer.status, 204, origin);
        t.same(corsHeaders(answer.headers), [], origin);
        t.equal(answer.headers.vary, 'Origin', 'a cache may not hand this to the shop');
      }
    });

    t.test('answers and errors can be read by allowed origins and by no other', async (t) => {
      for (const [path, status] of [
        ['/healthz', 200],
        ['/product/visit', 401],
        [`/product/visit?key=${PUBLISHABLE}`, 400],
        ['/nothing-here', 404],
      ] as const) {
        const shop = await open.get(path, { origin: SHOP });
        t.equal(shop.status, status);
        t.match(shop.headers, { 'access-control-allow-origin': SHOP, vary: 'Origin' });
        t.same(namesIn(shop.headers['access-control-expose-headers']), ['retry-after', 'x-request-id']);
        const answer = await open.get(path, { origin: OTHER_ORIGIN });
        t.same(corsHeaders(answer.headers), [], path);
        t.equal(answer.headers.vary, 'Origin');
      }
    });

    t.test('without ALLOWED_ORIGINS no answer has CORS headers', async (t) => {
      const closed = await startApp(t, redis);
      const answers = [await preflight(closed, SHOP), await closed.get('/healthz', { origin: SHOP })];
      for (const { headers } of answers) {
        t.same(corsHeaders(headers), []);
        t.notOk('vary' in headers);
      }
    });

    t.test('a GET without an Origin is accepted by its Referer', async (t) => {
      for (const [referer, status] of [
        [`${SHOP}/products/red-shoe?variant=1`, 200],
        [`${SHOP}/`, 200],
        [`${OTHER_ORIGIN}/?${SHOP}/`, 403],
        [`${SHOP}.evil.example/`, 403],
        ['about:blank', 403],
        ['no url', 403],
      ] as const) {
        const answer = await open.get(path('same', { key: PUBLISHABLE }), { referer });
        t.equal(answer.status, status, referer);
        t.same(corsHeaders(answer.headers), [], 'CORS was not asked for');
      }
    });
  });
});

function namesIn(header: string | undefined): string[] {
  return (header ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .sort();
}

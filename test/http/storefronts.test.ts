// What a storefront's caller may do. A shared device: the session of a visitor who has logged in and out again does not lead to
// that customer's wishlist, unless LINKED_SESSIONS=open. And a page of another origin: a browser adds the customer's login to
// whatever any page makes it send to the shop, and Shopify signs it; so a signature does not prove that the visitor meant it.

import t, { type Test } from 'tap';
import { Items } from '../../src/wishlist/items.js';
import { eachRedis, type Headers, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { postProxied, SECRET, signed } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import type { Document } from '../harness/openapi.js';
import { eventsOf } from '../harness/stream.js';
import { itemOf } from './wishlist.js';

const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';
const ENV = { SHOPIFY_SECRET: SECRET, PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN };
const LOGGED_OUT = '';

const SHOP = 'https://shop.example';
const FRIEND = 'https://friend.example';
const SHOP_ENV = {
  SHOPIFY_SECRET: SECRET,
  SHOP_URL: `${SHOP}/some/path`,
  ALLOWED_ORIGINS: FRIEND,
};

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: ENV });

  const add = (customerId: string, sessionId: string, productId: string, of = app) =>
    postProxied(of, '/item/add', customerId, itemOf({ sessionId }, { productId }));
  const listed = async (customerId: string, sessionId: string, of = app) => {
    const { json } = await postProxied(of, '/item/list', customerId, { identity: { sessionId } });
    return (json.items as { productId: string }[]).map(({ productId }) => productId).sort();
  };

  /** All that a storefront can do with a wishlist, by a session alone. */
  const wishlistRequests = (sessionId: string): [path: string, body: object][] => [
    ['/item/list', { identity: { sessionId } }],
    ['/item/add', itemOf({ sessionId }, { productId: '666' })],
    ['/item/remove', { identity: { sessionId }, productId: '1', variantId: null }],
    ['/item/remove', { identity: { sessionId }, productId: '1', event: 'moveToCart' }],
    ['/share', { identity: { sessionId } }],
    ['/event', { identity: { sessionId }, type: 'add' }],
    ['/event', { identity: { sessionId, email: 'a@b.example' }, type: 'add' }],
  ];

  async function expectClosed(t: Test, sessionId: string, of: TestApp = app): Promise<void> {
    const before = await dumpRedis(redis, of.prefix);
    for (const [path, body] of wishlistRequests(sessionId)) {
      for (const headers of [{}, { 'idempotency-key': `${sessionId} ${path}` }]) {
        const answer = await postProxied(of, path, LOGGED_OUT, body, headers);
        t.match(answer, { status: 403, json: { code: 'session_belongs_to_customer' } }, path);
      }
    }
    t.same(await dumpRedis(redis, of.prefix), before, 'and nothing has changed');
  }

  t.test('a guest who becomes a customer: after the logout the session opens nothing', async (t) => {
    t.equal((await add(LOGGED_OUT, 'adopted', '1')).status, 200);
    t.same(await listed(LOGGED_OUT, 'adopted'), ['1'], 'a guest has a wishlist of their own');
    t.equal((await add('10', 'adopted', '2')).status, 200);
    t.same(await listed('10', 'adopted'), ['1', '2'], 'it goes on as the wishlist of the customer');
    await expectClosed(t, 'adopted');
    t.same(await listed('10', 'adopted'), ['1', '2'], 'the customer finds it again');
  });

  t.test('so it is where the session came to a known customer, was merged, or has moved', async (t) => {
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

  t.test('a list beside a login shows what the guest had, or nothing', async (t) => {
    for (let i = 0; i < 12; i++) {
      const [customer, session] = [`${1000 + i}`, `racing-${i}`];
      await app.post('/item/add', itemOf({ customerId: customer }, { productId: '777' }), TRUSTED);
      await add(LOGGED_OUT, session, '1');
      const lists = Array.from({ length: 8 }, async (_, k) => {
        for (let turn = 0; turn < k; turn++) await new Promise(setImmediate);
        return postProxied(app, '/item/list', LOGGED_OUT, { identity: { sessionId: session } });
      });
      const [login, ...answers] = await Promise.all([add(customer, session, '2'), ...lists]);
      t.equal(login.status, 200);
      for (const { status, text } of answers) {
        t.ok(status === 200 || status === 403, text);
        t.notMatch(text, /"777"/);
      }
      await expectRefused(t, session);
    }
  });

  t.test('a list that a login overtakes shows nothing of the customer', async (t) => {
    await app.post('/item/add', itemOf({ customerId: '2000' }, { productId: '777' }), TRUSTED);
    await add(LOGGED_OUT, 'overtaken', '1');
    const { list } = Items.prototype;
    t.teardown(() => {
      Items.prototype.list = list;
    });
    Items.prototype.list = async function (profileId) {
      Items.prototype.list = list;
      t.equal((await add('2000', 'overtaken', '2')).status, 200);
      return list.call(this, profileId);
    };
    await expectRefused(t, 'overtaken');
    t.same(await listed('2000', 'overtaken'), ['1', '2', '777']);
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('a publishable key opens the wishlist of a guest, never that of a customer', async (t) => {
    const browser = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
    for (const LINKED_SESSIONS of ['closed', 'open']) {
      const of = await startApp(t, redis, { env: { ...ENV, LINKED_SESSIONS } });
      const sessionId = `by key ${LINKED_SESSIONS}`;
      for (const [path, body] of wishlistRequests(sessionId)) {
        const answer = await of.post(path, body, browser);
        t.match(answer, { status: 200, headers: { 'access-control-allow-origin': ORIGIN } }, path);
      }
      const { code } = (await of.post('/share', { identity: { sessionId } }, browser)).json;
      t.match(await of.get(`/share/${code}/items`, browser), { status: 200, json: { items: [{}] } });
      await add('77', sessionId, '2', of);
      const before = await dumpRedis(redis, of.prefix);
      for (const [path, body] of wishlistRequests(sessionId)) {
        const answer = await of.post(path, body, browser);
        t.match(answer, { status: 403, json: { code: 'session_belongs_to_customer' } }, path);
      }
      t.same(await dumpRedis(redis, of.prefix), before, 'and nothing has changed');
      const visit = { identity: { sessionId }, productHandle: 'x' };
      t.equal((await of.post('/product/visit', visit, browser)).status, 200, 'visits go on');
      const asked = { ...browser, 'access-control-request-method': 'POST' };
      const preflight = await of.send('OPTIONS', '/item/add', undefined, asked);
      t.match(preflight.headers, {
        'access-control-allow-origin': ORIGIN,
        'access-control-allow-methods': /POST/,
        'access-control-allow-headers': /Content-Type, X-API-Key, Idempotency-Key/,
      });
    }
  });

  t.test('so it is where a server has linked it, or visits alone have', async (t) => {
    await add(LOGGED_OUT, 'by-server', '1');
    const identity = { customerId: '30', sessionId: 'by-server' };
    t.equal((await app.post('/profile/merge', { identity }, TRUSTED)).status, 200);
    await expectClosed(t, 'by-server');
    const visit = { identity: { sessionId: 'by-visit' }, productHandle: 'x' };
    t.equal((await postProxied(app, '/product/visit', '31', visit)).status, 200);
    await expectClosed(t, 'by-visit');
  });

  t.test('visits go on, a new session is a guest, and servers may as ever', async (t) => {
    await add('40', 'shared', '1');
    const visit = { identity: { sessionId: 'shared' }, productHandle: 'x' };
    for (const count of [1, 2]) {
      const answer = await postProxied(app, '/product/visit', LOGGED_OUT, visit);
      t.equal(answer.status, 200);
      const query = withQuery('/product/visit', { sessionId: 'shared', productHandle: 'x' });
      t.equal((await app.get(query)).json.count, count);
    }
    t.equal((await app.del('/product/visit', visit)).status, 200);
    t.same(await listed(LOGGED_OUT, 'the-next-person'), []);
    t.equal((await add(LOGGED_OUT, 'the-next-person', '9')).status, 200);
    t.same(await listed(LOGGED_OUT, 'the-next-person'), ['9']);
    const asServer = await app.post('/item/list', { identity: { sessionId: 'shared' } }, TRUSTED);
    t.match(asServer, { status: 200, json: { items: [{ productId: '1' }] } });
    for (const [path, body] of wishlistRequests('shared'))
      t.equal((await app.post(path, body, TRUSTED)).status, 200, path);
  });

  t.test('LINKED_SESSIONS=open lets a session stand for its customer', async (t) => {
    const open = await startApp(t, redis, { env: { ...ENV, LINKED_SESSIONS: 'open' } });
    await add('50', 'open', '1', open);
    t.same(await listed(LOGGED_OUT, 'open', open), ['1']);
    for (const [path, body] of wishlistRequests('open'))
      t.equal((await postProxied(open, path, LOGGED_OUT, body)).status, 200, path);
    t.ok((await eventsOf(redis, open, { sessionId: 'open' })).length > 3);
  });

  async function expectRefused(t: Test, sessionId: string): Promise<void> {
    const { status } = await postProxied(app, '/item/list', LOGGED_OUT, { identity: { sessionId } });
    t.equal(status, 403, 'once the login is answered it is closed');
  }

  t.test('pages of other origins', async (t) => {
    const app = await startApp(t, redis, { env: SHOP_ENV });
    const identity = { sessionId: 'of-the-attacker' };
    const writes: [method: string, path: string, body: object][] = [
      ['POST', '/product/visit', { identity, productHandle: 'x' }],
      ['DELETE', '/product/visit', { identity, productHandle: 'x' }],
      ['POST', '/event', { identity, type: 'add' }],
      ['POST', '/item/add', itemOf(identity)],
      ['POST', '/item/remove', { identity, productId: '1001' }],
      ['POST', '/share', { identity }],
    ];
    const send = (method: string, path: string, body: object, headers: Headers) => {
      const query = new URLSearchParams(signed({ logged_in_customer_id: '7' }));
      return app.send(method, `${path}?${query}`, body, { 'content-type': 'application/json', ...headers });
    };

    t.test(
      'a page elsewhere links no session to the customer who is logged in: its writes are 403',
      async (t) => {
        const before = await dumpRedis(redis, app.prefix);
        const foreign: Headers[] = [
          { origin: 'https://evil.example' },
          { origin: 'null' },
          { origin: 'http://shop.example' },
          { origin: 'https://other.myshopify.com' },
          { origin: `${SHOP}:8443` },
          { origin: `${SHOP}.evil.example` },
          { origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' },
          { 'sec-fetch-site': 'cross-site' },
          { origin: SHOP, 'sec-fetch-site': 'cross-site' },
        ];
        for (const headers of foreign) {
          for (const [method, path, body] of writes) {
            const answer = await send(method, path, body, headers);
            const what = `${method} ${path} ${JSON.stringify(headers)}`;
            t.match(answer, { status: 403, json: { code: 'forbidden' } }, what);
          }
        }
        t.same(await dumpRedis(redis, app.prefix), before);
      },
    );

    t.test("the shop's own pages, friends, and what says nothing of its origin are served", async (t) => {
      const own: Headers[] = [
        {},
        { origin: SHOP },
        { origin: SHOP, 'sec-fetch-site': 'same-origin' },
        { origin: 'https://shop.myshopify.com', 'sec-fetch-site': 'same-origin' },
        { origin: FRIEND, 'sec-fetch-site': 'same-site' },
        { 'sec-fetch-site': 'none' },
        { referer: 'https://evil.example/' },
      ];
      for (const headers of own) {
        for (const [method, path, body] of writes) {
          const answer = await send(method, path, body, headers);
          t.equal(answer.status, 200, `${method} ${path} ${JSON.stringify(headers)}: ${answer.text}`);
        }
      }
    });

    t.test(
      'reads tell a page elsewhere nothing that CORS does not let it see, and are not refused',
      async (t) => {
        const query = signed({ logged_in_customer_id: '', sessionId: 's', productHandle: 'x' });
        const answer = await app.get(`/product/visit?${new URLSearchParams(query)}`, {
          origin: 'https://evil.example',
        });
        t.equal(answer.status, 200);
        t.notOk('access-control-allow-origin' in answer.headers);
      },
    );

    t.test('a parameter that merely ends in signature makes no caller a storefront', async (t) => {
      const visit = { identity: { sessionId: 'from-a-mail' }, productHandle: 'x' };
      t.equal((await app.post('/product/visit?utm_signature=x', visit)).status, 200);
      t.equal((await app.post('/product/visit?signature=x', visit)).status, 401);
    });

    t.test('servers are not asked where they come from', async (t) => {
      const headers = { ...TRUSTED, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
      t.equal((await app.post('/item/add', itemOf(identity), headers)).status, 200);
    });

    t.test('JSON as text/plain, which any page may send, is taken for counting a visit alone', async (t) => {
      const document: Document = (await app.get('/openapi.json')).json;
      const before = await dumpRedis(redis, app.prefix);
      let others = 0;
      for (const [path, methods] of Object.entries(document.paths)) {
        for (const [method, { requestBody }] of Object.entries(methods)) {
          if (requestBody === undefined || (path === '/product/visit' && method === 'post')) continue;
          others++;
          const example = requestBody.content['application/json'].example;
          for (const type of ['text/plain', 'Text/Plain;charset=UTF-8']) {
            const headers = { ...TRUSTED, 'content-type': type };
            const answer = await app.send(method.toUpperCase(), path, example, headers);
            const what = `${method} ${path} ${type}`;
            t.match(answer, { status: 415, json: { code: 'unsupported_media_type' } }, what);
          }
        }
      }
      t.ok(others >= 9, `${others} operations`);
      t.same(await dumpRedis(redis, app.prefix), before);
      const visit = { identity: { sessionId: 'beacon' }, productHandle: 'x' };
      t.equal(
        (await postProxied(app, '/product/visit', '', visit, { 'content-type': 'text/plain' })).status,
        200,
      );
    });
  });
});

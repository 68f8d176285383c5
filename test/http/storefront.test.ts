// What a storefront's signature does not prove: that the visitor meant the request. A browser adds the customer's login
// to whatever any page makes it send to the shop, and Shopify signs it.

import t from 'tap';
import { type Headers, startApp, TRUSTED } from '../harness/app.js';
import { postProxied, SECRET, signed } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import type { Document } from '../harness/openapi.js';
import { startTestRedis } from '../harness/redis.js';
import { itemOf } from './wishlist.js';

const SHOP = 'https://shop.example';
const FRIEND = 'https://friend.example';
const ENV = {
  SHOPIFY_SECRET: SECRET,
  SHOP_URL: `${SHOP}/some/path`,
  ALLOWED_ORIGINS: FRIEND,
};

t.test('storefronts', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: ENV });
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

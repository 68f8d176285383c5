// CORS for ALLOWED_ORIGINS, and the requests that browsers make without asking first: beacons.

import t, { type Test } from 'tap';
import { KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

const PATH = '/product/visit';
const SHOP = 'https://shop.example';
const OUTLET = 'https://outlet.example:8443';
const STRANGER = 'https://stranger.example';
const PUBLISHABLE = 'pk_test_0123456789abcdef';
const ENV = { ALLOWED_ORIGINS: `${SHOP},${OUTLET}`, PUBLISHABLE_KEYS: PUBLISHABLE };

const redis = await startTestRedis();
t.teardown(() => redis.stop());

const visitOf = (sessionId: string) => JSON.stringify({ identity: { sessionId }, productHandle: 'red-shoe' });

async function countOf(app: TestApp, sessionId: string): Promise<number> {
  return (await app.get(withQuery(PATH, { sessionId, productHandle: 'red-shoe' }), TRUSTED)).json.count;
}

const preflight = (app: TestApp, origin: string, path = PATH) =>
  app.send('OPTIONS', path, undefined, {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type,x-api-key',
  });

/** The names of the CORS headers of an answer. */
const corsHeaders = (headers: object) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'));

t.test('a preflight of an allowed origin is granted for two hours', async (t) => {
  const app = await startApp(t, redis, { env: ENV });
  for (const origin of [SHOP, OUTLET]) {
    const answer = await preflight(app, origin);
    t.match(answer, {
      status: 204,
      text: '',
      headers: {
        'access-control-allow-origin': origin,
        'access-control-max-age': '7200',
        vary: 'Origin',
      },
    });
    t.notOk('content-length' in answer.headers, 'a 204 has no Content-Length');
    t.same(listed(answer.headers['access-control-allow-methods']), ['delete', 'get', 'head', 'post']);
    const allowed = listed(answer.headers['access-control-allow-headers']);
    for (const name of ['content-type', 'x-api-key', 'idempotency-key', 'x-request-id']) {
      t.ok(allowed.includes(name), name);
    }
    t.notOk(allowed.includes('authorization'), 'secret keys have no business in a browser');
    t.notOk('access-control-allow-credentials' in answer.headers, 'there are no cookies to allow');
  }
});

t.test('a preflight of another origin is answered and grants nothing', async (t) => {
  const app = await startApp(t, redis, { env: ENV });
  for (const origin of [STRANGER, 'null', `${SHOP}.evil.example`, 'http://shop.example', `${SHOP}:444`, '']) {
    const answer = await preflight(app, origin);
    t.equal(answer.status, 204, origin);
    t.same(corsHeaders(answer.headers), [], origin);
    t.equal(answer.headers.vary, 'Origin', 'a cache may not hand this to the shop');
  }
});

t.test('answers, errors too, can be read by allowed origins and by no other', async (t) => {
  const app = await startApp(t, redis, { env: ENV });
  const good = withQuery(PATH, { sessionId: 'reader', productHandle: 'red-shoe' });
  for (const [path, status] of [
    [good, 200],
    [PATH, 400],
    [`${good}&key=pk_wrong_0123456789`, 401],
    ['/nothing-here', 404],
  ] as const) {
    const shop = await app.get(path, { origin: SHOP });
    t.equal(shop.status, status);
    t.equal(shop.headers['access-control-allow-origin'], SHOP);
    t.same(listed(shop.headers['access-control-expose-headers']), ['retry-after', 'x-request-id']);
    t.equal(shop.headers.vary, 'Origin');

    const stranger = await app.get(path, { origin: STRANGER });
    t.equal(stranger.status, status);
    t.same(corsHeaders(stranger.headers), []);
    t.equal(stranger.headers.vary, 'Origin');
  }
});

t.test('without ALLOWED_ORIGINS no answer speaks of origins', async (t) => {
  const app = await startApp(t, redis);
  for (const answer of [await preflight(app, SHOP), await app.get('/healthz', { origin: SHOP })]) {
    t.same(corsHeaders(answer.headers), []);
    t.notOk('vary' in answer.headers);
  }
});

t.test('a beacon counts as text/plain or without a type, with its key in the query', async (t) => {
  const app = await startApp(t, redis, { env: { ...ENV, VISIT_ACCESS: 'key' } });
  const path = `${PATH}?key=${PUBLISHABLE}`;
  for (const [i, type] of ['text/plain;charset=UTF-8', 'text/plain', undefined].entries()) {
    const sessionId = `beacon-${i}`;
    const headers = type === undefined ? { origin: SHOP } : { origin: SHOP, 'content-type': type };
    const answer = await app.post(path, visitOf(sessionId), headers);
    t.equal(answer.status, 200, type ?? 'no type');
    t.equal(await countOf(app, sessionId), 1, type ?? 'no type');
  }
});

t.test('forms, which any page may post without asking, are not taken', async (t) => {
  const app = await startApp(t, redis, { env: ENV });
  for (const type of ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
    const headers = { origin: SHOP, 'content-type': type };
    const answer = await app.post(`${PATH}?key=${PUBLISHABLE}`, visitOf('form'), headers);
    t.match(answer, { status: 415, json: { code: 'unsupported_media_type' } });
  }
  t.equal(await countOf(app, 'form'), 0);
});

t.test('a key that is wrong, secret, or of a page elsewhere counts nothing', async (t) => {
  const app = await startApp(t, redis, { env: ENV });
  await app.post(PATH, visitOf('before'));
  const before = await dumpRedis(redis, app.prefix);
  const cases: [key: string, headers: Record<string, string>, status: number, code: string][] = [
    ['pk_wrong_0123456789', { origin: SHOP }, 401, 'unauthorized'],
    ['', { origin: SHOP }, 401, 'unauthorized'],
    [KEY, { origin: SHOP }, 401, 'unauthorized'],
    [PUBLISHABLE, { origin: STRANGER }, 403, 'forbidden'],
    [PUBLISHABLE, { origin: 'null' }, 403, 'forbidden'],
    [PUBLISHABLE, {}, 403, 'forbidden'],
    [PUBLISHABLE, { origin: STRANGER, referer: `${SHOP}/products/red-shoe` }, 403, 'forbidden'],
  ];
  for (const [key, headers, status, code] of cases) {
    const answer = await app.post(`${PATH}?key=${key}`, visitOf('before'), headers);
    t.match(answer, { status, json: { code } }, `${key} ${JSON.stringify(headers)}`);
  }
  t.same(await dumpRedis(redis, app.prefix), before);
});

t.test(
  'a page of the very origin of the service, which sends no Origin with a GET, is known by Referer',
  async (t) => {
    const app = await startApp(t, redis, { env: { ...ENV, VISIT_ACCESS: 'key' } });
    const path = withQuery(PATH, { sessionId: 'same', productHandle: 'red-shoe', key: PUBLISHABLE });
    await readsAs(t, app, path, `${SHOP}/products/red-shoe?variant=1`, 200);
    await readsAs(t, app, path, `${SHOP}/`, 200);
    await readsAs(t, app, path, `${STRANGER}/?${SHOP}/`, 403);
    await readsAs(t, app, path, `${SHOP}.evil.example/`, 403);
    await readsAs(t, app, path, 'about:blank', 403);
    await readsAs(t, app, path, 'no url', 403);
  },
);

async function readsAs(t: Test, app: TestApp, path: string, referer: string, status: number): Promise<void> {
  const answer = await app.get(path, { referer });
  t.equal(answer.status, status, referer);
  t.same(corsHeaders(answer.headers), [], 'CORS was not asked for');
}

function listed(header: string | undefined): string[] {
  return (header ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .sort();
}

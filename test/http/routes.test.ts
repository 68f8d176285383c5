// Paths, methods, the base path, request ids, what probes ask, GET and PUT /settings, and CORS for ALLOWED_ORIGINS with the
// requests that browsers make without asking first: beacons.

import t from 'tap';
import { startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';
import { NOT_JSON } from './wishlist.js';

const SHOP = 'https://shop.example';
const OUTLET = 'https://outlet.example:8443';
const OTHER_ORIGIN = 'https://other.example';
const PUBLISHABLE = 'pk_test_0123456789abcdef';
const VISIT = { identity: { sessionId: 's' }, productHandle: 'x' };

t.test('routes', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);

  t.test('an unknown path is 404, whatever the method, the credential and the body', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    const near = ['/events', '/event/', '/event/x', '//event', '/EVENT', '/product', '/product/visit/'];
    const odd = ['/..', '/%', '/%00', '/*', '/:id', '/favicon.ico'];
    for (const path of [...near, ...odd])
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']) {
        const { status, json } = await app.send(method, path, method === 'GET' ? undefined : VISIT, TRUSTED);
        const nothing = { error: 'There is nothing at this path.', code: 'not_found' };
        t.same({ status, json }, { status: 404, json: nothing }, `${method} ${path}`);
      }
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a known path with another method is 405, and Allow names the right ones', async (t) => {
    for (const [path, allow, methods] of [
      ['/event', 'POST', ['GET', 'PUT', 'DELETE', 'PATCH']],
      ['/product/visit', 'POST, GET, HEAD, DELETE', ['PUT', 'PATCH']],
      ['/healthz', 'GET, HEAD', ['POST', 'PUT', 'DELETE']],
    ] as const)
      for (const method of methods) {
        const { status, json, headers } = await app.send(method, path, undefined, TRUSTED);
        const expected = { status: 405, json: { code: 'method_not_allowed' }, allow };
        t.match({ status, json, allow: headers.allow }, expected, `${method} ${path}`);
      }
  });

  t.test('an answer to HEAD has no body, so that the connection goes on in step', async (t) => {
    const wire = await Wire.open(t, app.port);
    for (const [path, status] of [
      ['/healthz', 200],
      ['/event', 405],
      ['/nowhere', 404],
    ] as const) {
      wire.sendHead('HEAD', path);
      wire.sendHead('GET', '/healthz');
      t.match(await wire.next({ withoutBody: true }), { status });
      t.match(await wire.next(), { status: 200, body: '{"status":"ok"}' });
    }
  });

  t.test('HEAD is answered on every path that answers GET, as GET is', async (t) => {
    const { paths } = (await app.get('/openapi.json')).json;
    const query = withQuery('', { sessionId: 's', productHandle: 'x' });
    for (const [template, { get }] of Object.entries<{ get?: object }>(paths)) {
      const path = template.replace(/\{\w+\}/, 'AAAAAAAAAAAAAAAA') + query;
      const head = await app.send('HEAD', path, undefined, TRUSTED);
      t.equal(head.text, '', template);
      if (get === undefined) {
        t.equal(head.status, 405, template);
        continue;
      }
      const got = await app.get(path, TRUSTED);
      t.equal(head.status, got.status, template);
      for (const name of ['content-type', 'cache-control', 'etag'])
        t.equal(head.headers[name], got.headers[name], `${template} ${name}`);
      // Figures differ from one moment to the next.
      const length = template === '/metrics' ? /^\d+$/ : String(got.headers['content-length']);
      t.match(head.headers['content-length'], length, template);
    }
    t.equal((await app.send('HEAD', `/product/visit${query}`)).status, 200, 'who may read may ask');
    t.equal((await app.send('HEAD', '/settings')).status, 401);
  });

  t.test("a caller's sane request id comes back, any other is replaced", async (t) => {
    for (const id of ['a', 'req-1.2_3~4:5/6+7=8@9', 'x'.repeat(128)]) {
      for (const path of ['/healthz', '/nowhere', '/event'])
        t.equal((await app.get(path, { 'x-request-id': id })).headers['x-request-id'], id);
      t.equal((await app.post('/product/visit', VISIT, { 'x-request-id': id })).headers['x-request-id'], id);
    }
    const made = new Set<unknown>();
    const odd = ['', 'x'.repeat(129), 'two words', 'a"b', '<script>', 'a\tb', 'ü', '\x7f', '\x80', 'a,b'];
    for (const id of odd) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead('GET', '/healthz', { 'x-request-id': id });
      const answer = await wire.next();
      t.match(answer, { status: 200 });
      t.match(answer?.headers['x-request-id'], /^[A-Za-z0-9_-]{8,32}$/, JSON.stringify(id));
      made.add(answer?.headers['x-request-id']);
    }
    t.equal(made.size, odd.length, 'each its own');
  });

  t.test('BASE_PATH stands before every path but those of operators', async (t) => {
    const app = await startApp(t, redis, { env: { BASE_PATH: '/api/v1' } });
    t.equal((await app.post('/api/v1/product/visit', VISIT)).status, 200);
    const query = withQuery('/api/v1/product/visit', { sessionId: 's', productHandle: 'x' });
    t.equal((await app.get(query)).json.count, 1);
    t.equal((await app.del('/api/v1/product/visit', VISIT)).status, 200);
    const operators = ['/healthz', '/readyz', '/metrics'];
    for (const path of operators) {
      t.equal((await app.get(path)).status, 200, path);
      t.equal((await app.get(`/api/v1${path}`)).status, 404, path);
    }
    for (const path of Object.keys((await app.get('/api/v1/openapi.json')).json.paths))
      t.equal(path.startsWith('/api/v1/'), !operators.includes(path), path);
    for (const path of ['/product/visit', '/event', '/api', '/api/v1event'])
      t.equal((await app.post(path, VISIT, TRUSTED)).status, 404, path);
    t.match(await app.get('/api/v1/event'), { status: 405, headers: { allow: 'POST' } });
  });

  t.test('healthz and readyz say so', async (t) => {
    const headers = { 'content-type': 'application/json' };
    t.match(await app.get('/healthz'), { status: 200, text: '{"status":"ok"}', headers });
    t.match(await app.get('/readyz'), { status: 200, text: '{"status":"ready"}' });
  });

  const put = (body: unknown) => app.send('PUT', '/settings', body, TRUSTED);
  const read = async () => (await app.get('/settings', TRUSTED)).text;

  t.test('settings are false at first, and what was put holds on every server', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix });
    t.equal(await read(), '{"autoRemoveAfterPurchase":false}');
    for (const autoRemoveAfterPurchase of [true, true, false, true]) {
      const text = JSON.stringify({ autoRemoveAfterPurchase });
      t.match(await put({ autoRemoveAfterPurchase, later: 'ignored' }), { status: 200, text });
      t.equal(await read(), text);
      t.equal((await second.get('/settings', TRUSTED)).text, text);
    }
  });

  t.test('wrong settings change nothing', async (t) => {
    await put({ autoRemoveAfterPurchase: true });
    const before = await dumpRedis(redis, app.prefix);
    const values = [undefined, null, 'true', 'false', 1, 0, '', [], [true], {}];
    const bodies = values.map((autoRemoveAfterPurchase): unknown => ({ autoRemoveAfterPurchase }));
    for (const body of [undefined, null, [], {}, true, ...NOT_JSON, ...bodies])
      t.equal((await put(body)).status, 400, JSON.stringify(body));
    t.same((await put({})).json.issues, [{ path: '/autoRemoveAfterPurchase', message: 'is required' }]);
    t.same(await dumpRedis(redis, app.prefix), before);
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
        t.same(listed(headers['access-control-allow-methods']), ['delete', 'get', 'head', 'post']);
        const allowed = listed(headers['access-control-allow-headers']);
        for (const name of ['content-type', 'x-api-key', 'idempotency-key', 'x-request-id'])
          t.ok(allowed.includes(name), name);
        t.notOk(allowed.includes('authorization'), 'secret keys have no business in a browser');
        t.notOk('access-control-allow-credentials' in headers, 'there are no cookies to allow');
        const ofItems = (await preflight(open, origin, '/item/add')).headers;
        t.match(ofItems, { 'access-control-allow-origin': origin, 'access-control-allow-methods': 'POST' });
      }
    });

    t.test('a preflight of another origin is answered and grants nothing', async (t) => {
      for (const origin of [
        OTHER_ORIGIN,
        'null',
        `${SHOP}.evil.example`,
        'http://shop.example',
        `${SHOP}:444`,
        '',
      ]) {
        const answer = await preflight(open, origin);
        t.equal(answer.status, 204, origin);
        t.same(corsHeaders(answer.headers), [], origin);
        t.equal(answer.headers.vary, 'Origin', 'a cache may not hand this to the shop');
      }
    });

    t.test('answers, errors too, can be read by allowed origins and by no other', async (t) => {
      for (const [path, status] of [
        ['/healthz', 200],
        ['/product/visit', 401],
        [`/product/visit?key=${PUBLISHABLE}`, 400],
        ['/nothing-here', 404],
      ] as const) {
        const shop = await open.get(path, { origin: SHOP });
        t.equal(shop.status, status);
        t.match(shop.headers, { 'access-control-allow-origin': SHOP, vary: 'Origin' });
        t.same(listed(shop.headers['access-control-expose-headers']), ['retry-after', 'x-request-id']);
        const answer = await open.get(path, { origin: OTHER_ORIGIN });
        t.same(corsHeaders(answer.headers), [], path);
        t.equal(answer.headers.vary, 'Origin');
      }
    });

    t.test('without ALLOWED_ORIGINS no answer speaks of origins', async (t) => {
      for (const { headers } of [await preflight(app, SHOP), await app.get('/healthz', { origin: SHOP })]) {
        t.same(corsHeaders(headers), []);
        t.notOk('vary' in headers);
      }
    });

    t.test('a beacon counts as text/plain or without a type, with its key in the query', async (t) => {
      for (const [i, type] of ['text/plain;charset=UTF-8', 'text/plain', undefined].entries()) {
        const headers = { origin: SHOP, ...(type === undefined ? {} : { 'content-type': type }) };
        const body = { identity: { sessionId: `beacon-${i}` }, productHandle: 'x' };
        t.equal(
          (await open.post(`/product/visit?key=${PUBLISHABLE}`, body, headers)).status,
          200,
          type ?? 'none',
        );
        t.equal(await open.shop.count({ sessionId: `beacon-${i}` }, 'x'), 1, type ?? 'none');
      }
    });

    t.test('a GET without an Origin, as from our own pages, is known by its Referer', async (t) => {
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

function listed(header: string | undefined): string[] {
  return (header ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .sort();
}

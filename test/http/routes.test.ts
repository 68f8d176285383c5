// Paths, methods, the base path, request ids, what probes ask, and GET and PUT /settings.

import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';
import { NOT_JSON } from './wishlist.js';

const VISIT = { identity: { sessionId: 's' }, productHandle: 'x' };

t.test('routes', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis);

  t.test('an unknown path is 404, whatever the method, the credential and the body', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    const paths = [
      '/events',
      '/event/',
      '/event/x',
      '//event',
      '/EVENT',
      '/product',
      '/product/visit/',
      '/product/visits',
      '/..',
      '/%',
      '/%00',
      '/*',
      '/:id',
      '/favicon.ico',
    ];
    for (const path of paths) {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']) {
        const { status, json, headers } = await app.send(
          method,
          path,
          method === 'GET' ? undefined : VISIT,
          TRUSTED,
        );
        t.same(
          { status, json },
          { status: 404, json: { error: 'There is nothing at this path.', code: 'not_found' } },
          `${method} ${path}`,
        );
        t.ok(headers['x-request-id']);
      }
    }
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a known path with another method is 405, and Allow names the right ones', async (t) => {
    const wrong = [
      ['/event', 'POST', ['GET', 'PUT', 'DELETE', 'PATCH']],
      ['/product/visit', 'POST, GET, HEAD, DELETE', ['PUT', 'PATCH']],
      ['/healthz', 'GET, HEAD', ['POST', 'PUT', 'DELETE']],
      ['/readyz', 'GET, HEAD', ['POST', 'DELETE']],
      ['/metrics', 'GET, HEAD', ['POST', 'DELETE']],
    ] as const;
    for (const [path, allow, methods] of wrong) {
      for (const method of methods) {
        const { status, json, headers } = await app.send(method, path, undefined, TRUSTED);
        t.match(
          { status, json, allow: headers.allow },
          { status: 405, json: { code: 'method_not_allowed' }, allow },
          `${method} ${path}`,
        );
      }
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
    for (const id of [
      'a',
      'req-1.2_3~4:5/6+7=8@9',
      'x'.repeat(128),
      '550e8400-e29b-41d4-a716-446655440000',
    ]) {
      for (const path of ['/healthz', '/nowhere', '/event']) {
        t.equal((await app.get(path, { 'x-request-id': id })).headers['x-request-id'], id);
      }
      t.equal((await app.post('/product/visit', VISIT, { 'x-request-id': id })).headers['x-request-id'], id);
    }
    const made = new Set<unknown>();
    const odd = ['', 'x'.repeat(129), 'two words', 'a"b', '<script>', 'a\tb', 'ü', '\x7f', '\x80', 'a,b'];
    for (const id of odd) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead('GET', '/healthz', { 'x-request-id': id });
      const answer = await wire.next();
      t.match(
        answer,
        { status: 200, headers: { 'x-request-id': /^[A-Za-z0-9_-]{8,32}$/ } },
        JSON.stringify(id),
      );
      made.add(answer?.headers['x-request-id']);
    }
    t.ok(made.size >= 8, 'each its own');
  });

  t.test('BASE_PATH stands before every path but those of operators', async (t) => {
    const app = await startApp(t, redis, { env: { BASE_PATH: '/api/v1' } });
    t.equal((await app.post('/api/v1/product/visit', VISIT)).status, 200);
    t.equal(
      (await app.get(withQuery('/api/v1/product/visit', { sessionId: 's', productHandle: 'x' }))).json.count,
      1,
    );
    t.equal((await app.del('/api/v1/product/visit', VISIT)).status, 200);
    t.equal(
      (await app.post('/api/v1/event', { identity: { sessionId: 's' }, type: 'add' }, TRUSTED)).status,
      200,
    );
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      t.equal((await app.get(path)).status, 200, path);
      t.equal((await app.get(`/api/v1${path}`)).status, 404, path);
    }
    for (const path of Object.keys((await app.get('/api/v1/openapi.json')).json.paths))
      t.equal(path.startsWith('/api/v1/'), !['/healthz', '/readyz', '/metrics'].includes(path), path);
    for (const path of ['/product/visit', '/event', '/api', '/api/v1event']) {
      t.equal((await app.post(path, VISIT, TRUSTED)).status, 404, path);
    }
    t.match(await app.get('/api/v1/event'), { status: 405, headers: { allow: 'POST' } });
  });

  t.test('healthz and readyz say so', async (t) => {
    t.match(await app.get('/healthz'), {
      status: 200,
      text: '{"status":"ok"}',
      headers: { 'content-type': 'application/json' },
    });
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
    const bodies = [undefined, null, [], {}, true, ...NOT_JSON];
    for (const body of [
      ...bodies,
      ...values.map((autoRemoveAfterPurchase) => ({ autoRemoveAfterPurchase })),
    ]) {
      t.equal((await put(body)).status, 400, JSON.stringify(body));
    }
    t.same((await put({})).json.issues, [{ path: '/autoRemoveAfterPurchase', message: 'is required' }]);
    t.same(await dumpRedis(redis, app.prefix), before);
  });
});

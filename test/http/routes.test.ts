// Paths, methods, the base path, request ids, and what operators ask: healthz, readyz, metrics.

import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

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

  t.test('metrics are Prometheus text whose counts are those of the answers given', async (t) => {
    const app = await startApp(t, redis);
    const asked = [
      ...Array.from({ length: 5 }, () => app.post('/product/visit', VISIT)),
      ...Array.from({ length: 2 }, () => app.post('/product/visit', {})),
      app.post('/event', { identity: { sessionId: 's' }, type: 'add' }, TRUSTED),
      app.post('/event', {}),
      app.get(withQuery('/product/visit', { sessionId: 's', productHandle: 'x' })),
      app.get('/nowhere'),
    ];
    await Promise.all(asked);
    const { status, headers, text } = await app.get('/metrics');
    t.equal(status, 200);
    t.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
    const samples = parsePrometheus(text);
    const answers = Object.fromEntries(
      [...samples].filter(
        ([name]) => name.startsWith('wishmeter_http_answers_total') && !name.includes('/openapi.json'),
      ),
    );
    t.same(answers, {
      'wishmeter_http_answers_total{operation="post /product/visit",status="200"}': 5,
      'wishmeter_http_answers_total{operation="post /product/visit",status="400"}': 2,
      'wishmeter_http_answers_total{operation="post /event",status="200"}': 1,
      'wishmeter_http_answers_total{operation="post /event",status="401"}': 1,
      'wishmeter_http_answers_total{operation="get /product/visit",status="200"}': 1,
      'wishmeter_http_answers_total{operation="none",status="404"}': 1,
    });
    t.equal(samples.get('wishmeter_http_open_requests'), 1, 'the one that asks');
    t.equal(samples.get('wishmeter_batch_operations_sum{script="record"}'), 1);
    t.equal(samples.get('wishmeter_batch_operations_sum{script="visits"}'), 5 + 1, 'visits, and the read');
    t.ok(Number(samples.get('wishmeter_redis_call_duration_seconds_count{script="visits"}')) >= 1);
    t.ok(samples.has('process_cpu_seconds_total'));
  });
});

/** Samples by name and labels; throws at a line that is none, and at a sample whose metric has no type. */
function parsePrometheus(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  const typed = new Set<string>();
  for (const line of text.split('\n').filter(Boolean)) {
    const type = /^# TYPE (\w+) (counter|gauge|histogram|summary)$/.exec(line)?.[1];
    if (type !== undefined) typed.add(type);
    if (line.startsWith('# ')) continue;
    const sample = /^(([a-zA-Z_:][\w:]*)(?:\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})?) (\S+)$/.exec(line);
    const [, key = '', name = '', value = ''] = sample ?? [];
    if (sample === null || (!typed.has(name) && !typed.has(name.replace(/_(sum|count|bucket)$/, '')))) {
      throw new Error(`not a sample: ${line}`);
    }
    samples.set(key, value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value));
  }
  return samples;
}

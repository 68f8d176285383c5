// Paths, methods, the base path, request ids, probes, /settings; and bodies: sizes, content types, late and cut ones.

import { createHmac } from 'node:crypto';
import t, { type Test } from 'tap';
import { KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { SECRET } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { Wire } from '../harness/wire.js';

const PATH = '/product/visit';
const VISIT = { identity: { sessionId: 's' }, productHandle: 'x' };
const MAX_BODY = 65_536;
function visitOfBytes(bytes: number): Buffer {
  const empty = JSON.stringify({ ...VISIT, fill: '' });
  return Buffer.from(JSON.stringify({ ...VISIT, fill: 'x'.repeat(bytes - empty.length) }));
}
/** The same bytes in pieces, whose sizes cycle through `sizes`. */
function pieces(bytes: Buffer, ...sizes: number[]): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = sizes[parts.length % sizes.length] as number;
    parts.push(bytes.subarray(at, at + size));
    at += size;
  }
  return parts;
}
t.test('routes and bodies', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);

  t.test('an unknown path is 404, whatever the method, the credential and the body', async (t) => {
    const before = await app.dump();
    const near = ['/events', '/event/', '/event/x', '//event', '/EVENT', '/product', '/product/visit/'];
    const odd = ['/..', '/%', '/%00', '/*', '/:id', '/favicon.ico'];
    for (const path of [...near, ...odd])
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH']) {
        const { status, json } = await app.send(method, path, method === 'GET' ? undefined : VISIT, TRUSTED);
        const nothing = { error: 'There is nothing at this path.', code: 'not_found' };
        t.same({ status, json }, { status: 404, json: nothing }, `${method} ${path}`);
      }
    t.same(await app.dump(), before);
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

  t.test(
    'an answer to HEAD has no body, so that the next answer on the connection can be read',
    async (t) => {
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
    },
  );

  t.test('HEAD is answered like GET on every path that has GET', async (t) => {
    const { paths } = (await app.get('/openapi.json')).json;
    const { responses } = paths[PATH].post;
    t.match(responses[400].description, /`invalid_request`.*`invalid_json`/, 'each code of a status');
    t.match(responses[503].description, /`unavailable`.*`overloaded`/);
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
      // Metrics change from one request to the next.
      const length = template === '/metrics' ? /^\d+$/ : String(got.headers['content-length']);
      t.match(head.headers['content-length'], length, template);
    }
    t.equal((await app.send('HEAD', `/product/visit${query}`)).status, 200, 'who may read may ask');
    t.equal((await app.send('HEAD', '/settings')).status, 401);
  });

  t.test("a caller's request id comes back if it is well-formed, and is replaced otherwise", async (t) => {
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

  t.test('BASE_PATH prefixes every path but those of operators', async (t) => {
    const app = await startApp(t, redis, { env: { BASE_PATH: '/api/v1' } });
    t.equal((await app.post('/api/v1/product/visit', VISIT)).status, 200);
    const query = withQuery('/api/v1/product/visit', { sessionId: 's', productHandle: 'x' });
    t.equal((await app.get(query)).json.count, 1);
    t.equal((await app.del('/api/v1/product/visit', VISIT)).status, 200);
    t.match(await app.get('/readyz'), { status: 200, text: '{"status":"ready"}' });
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

  t.test('settings are false at first, and a change applies on every server', async (t) => {
    const app = await startApp(t, redis);
    const second = await startApp(t, redis, { prefix: app.prefix });
    const put = (body: unknown) => app.send('PUT', '/settings', body, TRUSTED);
    const read = async (by: TestApp) => (await by.get('/settings', TRUSTED)).text;
    t.equal(await read(app), '{"autoRemoveAfterPurchase":false}');
    for (const autoRemoveAfterPurchase of [true, true, false, true]) {
      const text = JSON.stringify({ autoRemoveAfterPurchase });
      const body = { autoRemoveAfterPurchase, later: 'ignored' };
      t.match(await put(body), { status: 200, text });
      for (const by of [app, second]) t.equal(await read(by), text);
    }
  });

  t.test('a body of 65,536 bytes is accepted and one of 65,537 is not, however it is cut', async (t) => {
    const whole = (bytes: Buffer): unknown => bytes;
    const shapes = [[MAX_BODY * 2], [1_000], [16_384], [1, 4_095, 60_000]];
    const ways = [whole, ...shapes.map((sizes) => (bytes: Buffer) => pieces(bytes, ...sizes))];
    for (const method of ['POST', 'DELETE'])
      for (const cut of ways) {
        t.equal((await app.send(method, PATH, cut(visitOfBytes(MAX_BODY)))).status, 200, method);
        expectTooLarge(t, await app.send(method, PATH, cut(visitOfBytes(MAX_BODY + 1))), method);
      }
  });

  t.test('a chunked body is refused when it passes the limit, not at its end', async (t) => {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', PATH, { 'transfer-encoding': 'chunked' });
    const chunk = Buffer.alloc(0x4000, ' ');
    for (let i = 0; i < 5; i++)
      wire.send(Buffer.concat([Buffer.from('4000\r\n'), chunk, Buffer.from('\r\n')]));
    t.match(await wire.next(), { status: 413, headers: { connection: 'close' } });
    await wire.ended();
  });

  t.test('a connection stays usable after a body that was a little too large', async (t) => {
    const wire = await Wire.open(t, app.port);
    wire.sendHead('POST', PATH, { 'content-length': '70000' });
    t.match(await wire.next(), { status: 413 });
    wire.send(Buffer.alloc(70_000, 'x'));
    wire.sendHead('GET', withQuery(PATH, { sessionId: 's', productHandle: 'unseen' }));
    t.match(await wire.next(), { status: 200, body: /"count":0/ });
  });

  t.test('a request whose body is not read and may be endless closes its connection', async (t) => {
    const endless = { 'transfer-encoding': 'chunked' };
    const refused: [method: string, path: string, headers: Record<string, string>, status: number][] = [
      ['POST', PATH, { 'content-length': '1048577' }, 413],
      ['POST', PATH, { 'content-length': '10000000000' }, 413],
      ['POST', PATH, { ...endless, 'content-type': 'text/html' }, 415],
      ['POST', '/event', endless, 401],
      ['POST', '/event', { 'content-length': '10000000000' }, 401],
      ['POST', '/nowhere', endless, 404],
      ['PATCH', PATH, endless, 405],
      ['GET', '/healthz', endless, 200],
    ];
    for (const [method, path, headers, status] of refused) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead(method, path, headers);
      t.match(await wire.next(), { status, headers: { connection: 'close' } }, `${method} ${path}`);
      await wire.ended();
    }
  });

  t.test('a body in pieces is accepted, and one in far too many closes its connection', async (t) => {
    const body = visitOfBytes(60_000);
    for (const shape of [[55], [100], [1, 200], [1, 2, 3, 500], [59_999], [1, 59_999]])
      t.equal((await app.post(PATH, pieces(body, ...shape))).status, 200, `chunked by ${shape}`);
    const before = await app.dump();
    for (const count of [1_300, 10_000, 60_000]) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead('POST', PATH, { 'transfer-encoding': 'chunked' });
      wire.send('1\r\n \r\n'.repeat(count));
      t.equal(await wire.ended(), '', `${count} chunks of one byte`);
    }
    t.same(await app.dump(), before);
    t.equal(await app.figure('http_open_requests'), 0, 'and nothing of it is left open');
  });

  t.test(
    'JSON, plain text and no content type are accepted in any spelling, and all others are 415',
    async (t) => {
      const typed = (type: string) => app.post(PATH, VISIT, type === '' ? {} : { 'content-type': type });
      const json = ['application/json; charset=utf-8', 'application/json;charset=UTF-8', 'Application/JSON'];
      const text = ['text/plain', 'text/plain;charset=UTF-8', 'TEXT/PLAIN ; charset=utf-8'];
      for (const type of ['', ...json, ...text]) t.equal((await typed(type)).status, 200, type || 'absent');
      const forms = ['application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'];
      const near = ['application/jsonp', 'application/json-patch+json', 'text/plainer', 'json'];
      const more = ['text/html', 'application/xml; x=application/json', 'application/json, text/html'];
      const charsets = ['iso-8859-1', '"utf-16"', 'utf-80', 'UTF-8x'];
      for (const charset of charsets)
        more.push(`application/json; charset=${charset}`, `text/plain;Charset = ${charset}`);
      for (const charset of ['utf8', '"UTF-8"', 'utf-8; x=y'])
        t.equal((await typed(`application/json; charset=${charset}`)).status, 200, charset);
      const before = await app.dump();
      for (const type of [...forms, ...near, ...more])
        t.match(await typed(type), { status: 415, json: { code: 'unsupported_media_type' } }, type);
      t.same(await app.dump(), before);
    },
  );

  t.test('a body that does not arrive in time is 408, whether the client is silent or slow', async (t) => {
    const impatient = await startApp(t, redis, { timing: { bodyTimeoutMs: 300 } });
    const clients = [
      { what: 'nothing of the body', start: '', drip: '' },
      { what: 'half of it', start: '{"identity"', drip: '' },
      { what: 'a byte now and then', start: '{', drip: ' ' },
      { what: 'a byte now and then, chunked', start: '1\r\n{\r\n', drip: '1\r\n \r\n', chunked: true },
    ];
    const ends = clients.map(async ({ what, start, drip, chunked }) => {
      const wire = await Wire.open(t, impatient.port);
      const size = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': '1000' };
      wire.sendHead('POST', PATH, { 'x-api-key': KEY, ...size });
      if (start !== '') wire.send(start);
      const dripping = setInterval(() => drip && wire.send(drip), 50);
      const answer = await wire.next();
      clearInterval(dripping);
      const body = /"code":"request_timeout"/;
      t.match(answer, { status: 408, headers: { connection: 'close' }, body }, what);
      await wire.ended();
    });
    await Promise.all(ends);
  });
});
function expectTooLarge(t: Test, answer: Awaited<ReturnType<TestApp['get']>>, why: string): void {
  t.match(answer, { status: 413, json: { code: 'payload_too_large', error: /than \d+ bytes/ } }, why);
}

const MiB = 1024 * 1024;
/** The limit of all bodies in memory together. */
const LIMIT = 64 * MiB;
const SENDERS = 100;
t.test(
  'beyond the limit of all bodies the oldest unsigned ones are refused, and a signed one is accepted',
  async (t) => {
    const app = await startApp(t, await startTestRedis(t), { env: { SHOPIFY_SECRET: SECRET } });
    const unsigned = Buffer.alloc(MiB - 1, ' ');
    const wires: Wire[] = [];
    for (let i = 0; i < SENDERS; i++) {
      const wire = await Wire.open(t, app.port);
      wire.sendHead('POST', '/webhook/purchase', {
        'x-shopify-hmac-sha256': `${'A'.repeat(43)}=`,
        'content-length': String(MiB),
      });
      await new Promise((resolve) => wire.socket.write(unsigned, resolve));
      wires.push(wire);
    }
    const refused = () => app.figure('http_refused_total{code="overloaded",why="bodies"}');
    const least = SENDERS - LIMIT / MiB;
    await until('the oldest are refused', async () => Number(await refused()) >= least);
    t.match(await wires[0]?.next(), { status: 503, headers: { 'retry-after': '1' }, body: /"overloaded"/ });
    t.ok(Number(await app.figure('http_open_requests')) <= LIMIT / MiB);

    const order = JSON.stringify({ id: 1, line_items: [], note: 'x'.repeat(MiB / 2) });
    const signature = createHmac('sha256', SECRET).update(order).digest('base64');
    const answer = await app.post('/webhook/purchase', order, { 'x-shopify-hmac-sha256': signature });
    t.equal(answer.status, 200, answer.text);
    for (const wire of wires) wire.socket.destroy();
    await until('all are forgotten', async () => (await app.figure('http_open_requests')) === 0);
    const again = await app.post('/webhook/purchase', order, { 'x-shopify-hmac-sha256': signature });
    t.equal(again.status, 200);
  },
);

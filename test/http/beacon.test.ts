// GET /beacon.js as caches and browsers see it. What the script does is in beacon-browser.test.ts.

import { request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import ts from 'typescript';
import { startApp, type TestApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const redis = await startTestRedis();
t.teardown(() => redis.stop());
const app = await startApp(t, redis);

const load = (headers: Record<string, string> = {}) => app.get('/beacon.js', headers);

t.test('it is JavaScript that caches may keep and any page may load', async (t) => {
  const { status, headers, text } = await load();
  t.equal(status, 200);
  t.match(headers, {
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': /^public, max-age=\d{4,}/,
    etag: /^W\/"[\w-]{22}"$/,
    vary: 'Accept-Encoding',
    'cross-origin-resource-policy': 'cross-origin',
    'content-length': `${Buffer.byteLength(text)}`,
  });
  t.notOk('content-encoding' in headers);
});

t.test('it needs no key, and no VISIT_ACCESS takes it away', async (t) => {
  const closed = await startApp(t, redis, { env: { VISIT_ACCESS: 'key' } });
  t.equal((await closed.get('/beacon.js')).status, 200);
});

t.test('gzipped it is at most 1,792 bytes, and what it unpacks to is the script', async (t) => {
  const { headers, bytes } = await loadBytes(app, 'gzip, deflate, br, zstd');
  t.match(headers, { 'content-encoding': 'gzip', 'content-length': `${bytes.length}` });
  t.ok(bytes.length <= 1792, `${bytes.length} bytes`);
  t.equal(gunzipSync(bytes).toString(), (await load()).text);
});

t.test('it is gzipped for those who take that, and for no other', async (t) => {
  for (const accepted of ['gzip', 'br, gzip', 'GZIP;q=0.5', 'br;q=1.0, gzip;q=0.8, *;q=0.1', '*']) {
    t.equal((await loadBytes(app, accepted)).headers['content-encoding'], 'gzip', accepted);
  }
  for (const refused of ['', 'br', 'identity', 'gzip;q=0', 'gzip; q=0.000, br', 'x-gzippy']) {
    t.equal((await loadBytes(app, refused)).headers['content-encoding'], undefined, refused);
  }
});

t.test('a client that has this version gets a 304 without a body', async (t) => {
  const { headers } = await load();
  const tag = headers.etag as string;
  const strong = tag.slice(2);
  for (const known of [tag, strong, `"other", ${tag}`, '*']) {
    const answer = await load({ 'if-none-match': known, 'accept-encoding': 'gzip' });
    t.match(answer, {
      status: 304,
      text: '',
      headers: { etag: tag, 'cache-control': headers['cache-control'] },
    });
    t.equal(answer.headers.vary, 'Accept-Encoding');
  }
  for (const other of ['"other"', `W/${strong.slice(0, -2)}"`, '']) {
    t.equal((await load({ 'if-none-match': other })).status, 200, other);
  }
});

t.test('the connection goes on after a 304', async (t) => {
  const wire = await Wire.open(t, app.port);
  for (let i = 0; i < 2; i++) {
    wire.sendHead('GET', '/beacon.js', { 'if-none-match': '*' });
    const answer = await wire.next();
    t.equal(answer?.status, 304);
    t.notOk('content-length' in (answer?.headers ?? {}), 'a length of 0 would be told of the script');
  }
});

t.test(
  'another start of the same version has the same tag, so several workers share one cache',
  async (t) => {
    const other = await startApp(t, redis);
    t.equal((await other.get('/beacon.js')).headers.etag, (await load()).headers.etag);
  },
);

t.test('it stands under BASE_PATH', async (t) => {
  const based = await startApp(t, redis, { env: { BASE_PATH: '/api/v1' } });
  t.equal((await based.get('/api/v1/beacon.js')).status, 200);
  t.equal((await based.get('/beacon.js')).status, 404);
});

t.test('where origins are allowed, caches are told of both things that answers depend on', async (t) => {
  const withOrigins = await startApp(t, redis, { env: { ALLOWED_ORIGINS: 'https://shop.example' } });
  const { headers } = await withOrigins.get('/beacon.js', { origin: 'https://shop.example' });
  t.equal(headers['access-control-allow-origin'], 'https://shop.example', 'for <script crossorigin>');
  t.same(headers.vary?.split(', ').sort(), ['Accept-Encoding', 'Origin']);
});

t.test(
  'it is one program of ES2017: no comment is left, nothing that an older browser trips over',
  async (t) => {
    const { text } = await load();
    t.notMatch(text, /^\s/m, 'no indentation');
    t.notMatch(text, /(^|\s)\/\//m, 'no comment');
    const translated = (target: ts.ScriptTarget) =>
      ts.transpileModule(text, { reportDiagnostics: true, compilerOptions: { target } });
    const newest = translated(ts.ScriptTarget.ESNext);
    t.same(newest.diagnostics, [], 'it parses');
    t.equal(translated(ts.ScriptTarget.ES2017).outputText, newest.outputText, 'nothing had to be translated');
  },
);

/** The bytes as they are sent. */
function loadBytes(app: TestApp, acceptEncoding: string) {
  return new Promise<{ headers: Record<string, unknown>; bytes: Buffer }>((resolve, reject) => {
    const headers = { 'accept-encoding': acceptEncoding };
    request({ host: '127.0.0.1', port: app.port, path: '/beacon.js', headers }, async (res) => {
      const parts: Buffer[] = [];
      for await (const part of res) parts.push(part as Buffer);
      resolve({ headers: res.headers, bytes: Buffer.concat(parts) });
    })
      .on('error', reject)
      .end();
  });
}

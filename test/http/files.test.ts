// Pages and files under any base path: /beacon.js and /wishlist.js as caches see them; / and /docs load nothing from elsewhere.

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import ts from 'typescript';
import { startApp, type TestApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { Wire } from '../harness/wire.js';

const BEACON = '/beacon.js';
const DOCUMENT = '/openapi.json';
const RENDERER = '/docs/swagger-ui.js';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const redis = await startTestRedis(t);
const app = await startApp(t, redis);
const based = await startApp(t, redis, { env: { BASE_PATH: '/api', VISIT_ACCESS: 'key' } });

t.test('the beacon is JavaScript that caches may keep and any page may load', async (t) => {
  const { status, headers, text } = await app.get(BEACON);
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
  const elsewhere = await based.get(`/api${BEACON}`);
  t.equal(elsewhere.status, 200, 'under BASE_PATH, whatever VISIT_ACCESS says');
  t.equal(elsewhere.headers.etag, headers.etag, 'one tag on every server of a version');
  t.equal((await based.get(BEACON)).status, 404);
});

t.test('the gzipped beacon is at most 2,048 bytes, and only clients that accept gzip get it', async (t) => {
  const { headers, bytes } = await bytesOf(BEACON, 'gzip, deflate, br, zstd');
  t.match(headers, { 'content-encoding': 'gzip', 'content-length': `${bytes.length}` });
  t.ok(bytes.length <= 2048, `${bytes.length} bytes`);
  t.equal(gunzipSync(bytes).toString(), (await app.get(BEACON)).text);
  const encodingFor = async (accepted: string) =>
    (await bytesOf(BEACON, accepted)).headers['content-encoding'];
  for (const accepted of ['GZIP;q=0.5', 'br;q=1.0, gzip;q=0.8, *;q=0.1', '*'])
    t.equal(await encodingFor(accepted), 'gzip', accepted);
  for (const refused of ['', 'br', 'gzip;q=0', 'gzip; q=0.000, br', 'x-gzippy'])
    t.equal(await encodingFor(refused), undefined, refused);
});

t.test('the gzipped kit is at most 10 KB, as docs/storefront.md says', async (t) => {
  const { bytes } = await bytesOf('/wishlist.js', 'gzip');
  t.ok(bytes.length <= 10_240, `${bytes.length} bytes`);
});

t.test(
  'a client that has the current beacon gets a 304 without a body, and keeps its connection',
  async (t) => {
    const { headers } = await app.get(BEACON);
    const tag = headers.etag as string;
    const about = { etag: tag, 'cache-control': headers['cache-control'], vary: 'Accept-Encoding' };
    const kept = { status: 304, text: '', headers: about };
    for (const known of [tag, tag.slice(2), `"other", ${tag}`, '*'])
      t.match(await app.get(BEACON, { 'if-none-match': known, 'accept-encoding': 'gzip' }), kept);
    for (const other of ['"other"', `${tag.slice(0, -2)}"`, ''])
      t.equal((await app.get(BEACON, { 'if-none-match': other })).status, 200, other);
    const wire = await Wire.open(t, app.port);
    for (let i = 0; i < 2; i++) {
      wire.sendHead('GET', BEACON, { 'if-none-match': '*' });
      const answer = await wire.next();
      t.equal(answer?.status, 304);
      t.notOk('content-length' in (answer?.headers ?? {}), 'no length of 0 is claimed for the script');
      t.notOk('content-type' in (answer?.headers ?? {}), 'there is nothing that has a type');
      t.match(answer?.headers, { 'x-content-type-options': 'nosniff', 'x-request-id': /./ });
    }
  },
);

t.test('/openapi.json must be revalidated, and is 304 for a client that has it', async (t) => {
  const { headers } = await app.get(DOCUMENT);
  t.match(headers, {
    'content-type': 'application/json',
    'cache-control': 'no-cache',
    etag: /^W\/"[\w-]{22}"$/,
  });
  const again = await app.get(DOCUMENT, { 'if-none-match': headers.etag as string });
  t.match(again, { status: 304, text: '', headers: { etag: headers.etag } });
  t.notOk('content-type' in again.headers);
  t.not(
    (await based.get(`/api${DOCUMENT}`)).headers.etag,
    headers.etag,
    'another base path, another document',
  );
});

t.test('with ALLOWED_ORIGINS, Vary of the beacon names both Origin and Accept-Encoding', async (t) => {
  const origin = 'https://shop.example';
  const open = await startApp(t, redis, { env: { ALLOWED_ORIGINS: origin } });
  const { headers } = await open.get(BEACON, { origin });
  t.equal(headers['access-control-allow-origin'], origin, 'for <script crossorigin>');
  t.same(headers.vary?.split(', ').sort(), ['Accept-Encoding', 'Origin']);
});

t.test('the beacon is one program of ES2017 without comments', async (t) => {
  const { text } = await app.get(BEACON);
  t.notMatch(text, /^\s/m, 'no indentation');
  t.notMatch(text, /(^|\s)\/\//m, 'no comment');
  const translated = (target: ts.ScriptTarget) =>
    ts.transpileModule(text, { reportDiagnostics: true, compilerOptions: { target } });
  const newest = translated(ts.ScriptTarget.ESNext);
  t.same(newest.diagnostics, [], 'it parses');
  t.equal(translated(ts.ScriptTarget.ES2017).outputText, newest.outputText, 'nothing had to be translated');
});

t.test('SCRIPT_NAME names the path of the kit, and the script finds its own tag', async (t) => {
  const named = await startApp(t, redis, { env: { SCRIPT_NAME: 'hearts' } });
  const { status, text, headers } = await named.get('/hearts.js');
  t.equal(status, 200);
  t.equal(headers['content-type'], 'text/javascript; charset=utf-8');
  t.equal(headers['cross-origin-resource-policy'], 'cross-origin');
  t.match(text, 'script[src*="/hearts.js"]');
  t.notMatch(text, /beacon\\?\.js/);
  t.notMatch(text, /@include|^\s*\/\//m, 'all files are in it, and no comment; if not, run make build');
  t.equal((await named.get('/wishlist.js')).status, 404);
  t.ok((await named.get('/beacon.js')).text.length < text.length);
  const second = /hearts-page\.js\?v=\w{8}/.exec(text)?.[0];
  t.match(
    await named.get(`/${second}`),
    { status: 200, text: /export/ },
    'by its own name it imports the second',
  );
  for (const [path, most] of [
    ['/hearts.js', 10 * 1024],
    ['/hearts-page.js', 8 * 1024],
  ] as const) {
    const { bytes } = await bytesOf(path, 'gzip', named);
    t.equal(gunzipSync(bytes).toString(), (await named.get(path)).text);
    t.ok(bytes.length <= most, `${path}: ${bytes.length} bytes; if it is twice as large, run make build`);
  }
});

for (const [base, server] of [
  ['', app],
  ['/api', based],
] as [string, TestApp][])
  t.test(`every address in the pages under the base path "${base}" leads somewhere`, async (t) => {
    for (const path of [`${base}/`, `${base}/docs`]) {
      const { status, headers, text } = await server.get(path);
      t.equal(status, 200);
      t.match(headers, {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': /^default-src 'none'; script-src 'self'; style-src 'self';/,
      });
      const found = Array.from(text.matchAll(/(?:href|src|data-document)="([^"]+)"/g), ([, one = '']) => one);
      t.ok(found.length >= 5);
      for (const address of found.filter((address) => address !== 'data:,')) {
        t.match(address, /^\/\w/);
        t.equal((await server.get(address)).status, 200, address);
      }
    }
    t.match((await server.get(`${base}/`)).text, `<small>${version}</small>`);
    t.equal((await server.post(`${base}/`, {})).status, 405);
    if (base !== '')
      t.equal((await server.get(base)).text, (await server.get(`${base}/`)).text, 'no slash at its end');
  });

t.test('the script of /docs may be cached, and arrives whole, gzipped or not', async (t) => {
  const { headers, text } = await app.get(RENDERER);
  t.equal(text, readFileSync('node_modules/swagger-ui-dist/swagger-ui-bundle.js', 'utf8'));
  t.match(headers, { 'cache-control': /^public, max-age=\d{4,}/, vary: 'Accept-Encoding' });
  const gzipped = await bytesOf(RENDERER, 'gzip');
  t.ok(gzipped.bytes.length < text.length / 3);
  t.equal(gunzipSync(gzipped.bytes).toString(), text);
});

function bytesOf(path: string, acceptEncoding: string, { port } = app) {
  return new Promise<{ headers: Record<string, unknown>; bytes: Buffer }>((resolve, reject) => {
    const headers = { 'accept-encoding': acceptEncoding };
    request({ host: '127.0.0.1', port, path, headers }, async (res) => {
      const parts: Buffer[] = [];
      for await (const part of res) parts.push(part as Buffer);
      resolve({ headers: res.headers, bytes: Buffer.concat(parts) });
    })
      .on('error', reject)
      .end();
  });
}

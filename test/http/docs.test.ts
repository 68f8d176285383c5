// GET / and /docs: pages for people, under any base path, which load nothing from elsewhere; and files as large as
// the renderer's: compressed once, by a thread, whole to a slow reader, and not copied for each of many.

import { createHook } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Access } from '../../src/http/access.js';
import { Exchanges } from '../../src/http/exchanges.js';
import type { Operation } from '../../src/http/operation.js';
import { listen } from '../../src/http/server.js';
import { loadUws } from '../../src/http/uws.js';
import { startApp, type TestApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { inChromium, urlOf } from '../harness/storefront.js';
import { until } from '../harness/until.js';

const RENDERER = '/docs/swagger-ui.js';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const redis = await startTestRedis();
t.teardown(() => redis.stop());
const apps: readonly [[base: string, app: TestApp], [base: string, app: TestApp]] = [
  ['', await startApp(t, redis)],
  ['/api', await startApp(t, redis, { env: { BASE_PATH: '/api' } })],
];

for (const [base, app] of apps) {
  t.test(`under "${base}" every address in the pages leads somewhere`, async (t) => {
    for (const path of [`${base}/`, `${base}/docs`]) {
      const { status, headers, text } = await app.get(path);
      t.equal(status, 200);
      t.equal(headers['content-type'], 'text/html; charset=utf-8');
      t.match(
        headers['content-security-policy'],
        /^default-src 'none'; script-src 'self'; style-src 'self';/,
      );
      const addresses = Array.from(
        text.matchAll(/(?:href|src|data-document)="([^"]+)"/g),
        ([, found]) => found as string,
      );
      t.ok(addresses.length >= 5);
      for (const address of addresses.filter((address) => address !== 'data:,')) {
        t.match(address, /^\/\w/);
        t.equal((await app.get(address)).status, 200, address);
      }
    }
    t.match((await app.get(`${base}/`)).text, `<small>${version}</small>`);
    t.equal((await app.post(`${base}/`, {})).status, 405);
    if (base !== '')
      t.equal((await app.get(base)).text, (await app.get(`${base}/`)).text, 'no slash at its end');
  });
}

t.test('what the page loads may be kept, and comes whole, gzipped or not', async (t) => {
  const [, app] = apps[0];
  const { headers, text } = await app.get(RENDERER);
  t.equal(text, readFileSync('node_modules/swagger-ui-dist/swagger-ui-bundle.js', 'utf8'));
  t.match(headers, { 'cache-control': /^public, max-age=\d{4,}/, vary: 'Accept-Encoding' });
  const gzipped = await app.get(RENDERER, { 'accept-encoding': 'gzip' });
  t.equal(gzipped.headers['content-encoding'], 'gzip');
  t.ok(Number(gzipped.headers['content-length']) < text.length / 3);
  const known = await app.get(RENDERER, { 'if-none-match': headers.etag as string });
  t.match(known, { status: 304, text: '' });
});

t.test('what comes after the first request for a large file is not held up by it', async (t) => {
  const app = await startApp(t, redis);
  const order: string[] = [];
  const ask = (path: string) => app.get(path).then(({ status }) => order.push(`${path} ${status}`));
  await Promise.all([ask('/docs/swagger-ui.js'), ask('/healthz')]);
  t.same(order, ['/healthz 200', '/docs/swagger-ui.js 200']);
});

t.test('all first requests for a file wait for one compression, which a thread does', async (t) => {
  const app = await startApp(t, redis);
  const begun = new Set<number>();
  const doneByThread = new Set<number>();
  const hook = createHook({
    init(id, type) {
      if (type === 'ZLIB') begun.add(id);
    },
    // Called for what comes back from a thread, and never for gzipSync.
    before(id) {
      if (begun.has(id)) doneByThread.add(id);
    },
  }).enable();
  t.teardown(() => hook.disable());
  for (const path of ['/docs/swagger-ui.js', '/docs/swagger-ui.css', '/beacon.js']) {
    begun.clear();
    doneByThread.clear();
    const answers = await Promise.all(Array.from({ length: 8 }, () => app.get(path)));
    t.equal(begun.size, 1, path);
    t.same(doneByThread, begun);
    t.equal(new Set(answers.map(({ text }) => text)).size, 1);
    await app.get(path);
    t.equal(begun.size, 1, 'later ones need none');
  }
});

/** Sends a request, and reads nothing until what it gives is called: that resolves to whether `expected` has come. */
function slowReader(t: Test, port: number) {
  const socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  socket.write('GET /large HTTP/1.1\r\nHost: slow\r\n\r\n');
  socket.pause();
  return async (expected: Buffer) => {
    const parts: Buffer[] = [];
    socket.on('data', (data) => parts.push(data));
    socket.resume();
    const hasCome = () => {
      const bytes = Buffer.concat(parts);
      return bytes.subarray(bytes.indexOf('\r\n\r\n') + 4).equals(expected);
    };
    await until('all of it has come', hasCome);
    return true;
  };
}

/** A server with one answer, which is larger than all buffers on its way. */
async function listenWithLarge(asText: boolean, readMs?: number) {
  const large = randomBytes(24 * 1024 * 1024);
  if (asText) large.fill(large.toString('hex')); // any text
  const access = new Access({
    apiKeys: [],
    publishableKeys: [],
    allowedOrigins: [],
    shopifySecrets: [],
    shopUrl: 'http://shop',
    visitAccess: 'session',
    metricsToken: '',
  });
  const exchanges = new Exchanges({
    access,
    log: pino({ level: 'silent' }),
    onAnswers: () => () => {},
    onRefusal: () => {},
    limits: { callers: undefined, anonymous: undefined },
    longestTurnMs: 1_000,
    trustedProxies: 0,
    ...(readMs === undefined ? {} : { readMs }),
  });
  const operation: Operation = {
    method: 'get',
    path: '/large',
    subject: 'open',
    maxBody: 0,
    doc: { id: 'getLarge', tag: 'Operating', summary: 'Bytes' },
    handle: () => ({ type: 'application/octet-stream', body: asText ? large.toString('latin1') : large }),
  };
  const { uws } = await loadUws();
  const server = listen({
    uws,
    host: '127.0.0.1',
    port: 0,
    basePath: '',
    operations: [operation],
    unprefixed: [],
    exchanges,
  });
  return { large, server, exchanges };
}

for (const asText of [false, true]) {
  const kind = asText ? 'a text' : 'a file';
  t.test(`${kind} larger than all buffers on its way comes whole to a slow reader`, async (t) => {
    const { large, server, exchanges } = await listenWithLarge(asText);
    t.teardown(() => server.close());
    const read = slowReader(t, server.port);
    await until('it is not taken whole', () => exchanges.readers.count === 1);
    t.ok(await read(large));
  });

  t.test(`closing waits for readers of ${kind}, those told that their connection closes, too`, async (t) => {
    const { large, server, exchanges } = await listenWithLarge(asText);
    const before = slowReader(t, server.port);
    await until('one reads', () => exchanges.readers.count === 1);
    exchanges.closesConnections = true;
    const told = slowReader(t, server.port);
    await until('both read', () => exchanges.readers.count === 2);
    const closing = server.close();
    t.same(await Promise.all([before(large), told(large)]), [true, true]);
    await closing;
  });
}

t.test('closing does not wait for ever for a reader that reads no more', async (t) => {
  const { server, exchanges } = await listenWithLarge(false, 100);
  slowReader(t, server.port);
  await until('it reads', () => exchanges.readers.count === 1);
  await server.close();
  t.pass();
});

t.test('closing does not wait for a reader that has left in the middle of an answer', async (t) => {
  const { server, exchanges } = await listenWithLarge(false);
  t.teardown(() => server.close());
  const socket = connect({ port: server.port, host: '127.0.0.1' });
  socket.on('error', () => {});
  socket.write('GET /large HTTP/1.1\r\nHost: leaving\r\n\r\n');
  socket.pause();
  await until('it reads', () => exchanges.readers.count === 1);
  socket.destroy();
  await until('it does not any more', () => exchanges.readers.count === 0);
  t.equal(exchanges.requests.count, 0);
});

t.test('slow readers share one copy', async (t) => {
  const readers = 20;
  const { large, server, exchanges } = await listenWithLarge(false, 100);
  t.teardown(() => server.close());
  const before = process.memoryUsage.rss();
  for (let i = 0; i < readers; i++) slowReader(t, server.port);
  await until('all of them read', () => exchanges.readers.count === readers);
  const copies = (process.memoryUsage.rss() - before) / large.length;
  t.ok(copies < readers / 2, `${copies.toFixed(1)} copies`);
});

await inChromium(t, async (t, { browser }) => {
  for (const [[base, app], viewport, colorScheme] of [
    [apps[0], { width: 390, height: 844 }, 'dark'],
    [apps[1], { width: 1280, height: 900 }, 'light'],
  ] as const) {
    t.test(`/docs under "${base}" at ${viewport.width} px, ${colorScheme}`, async (t) => {
      const context = await browser.newContext({ viewport, colorScheme });
      t.teardown(() => context.close());
      const page = await context.newPage();
      const said: string[] = [];
      const asked: string[] = [];
      page.on('console', (message) => said.push(message.text()));
      page.on('pageerror', (error) => said.push(error.message));
      page.on('request', (request) => asked.push(request.url()));
      const shoot = (name: string) => shot(page, `${base.slice(1)}${name}-${viewport.width}`);
      await page.goto(`${urlOf(app)}${base}/`);
      await shoot('index');
      await page.getByRole('link', { name: 'Documentation of the API' }).click();
      const operation = page.locator('#operations-Visits-countVisit');
      await operation.waitFor({ timeout: 30_000 });
      t.match(await page.locator('.info .title').textContent(), version);
      await shoot('docs');
      const [ground] = await page
        .evaluate<string>('getComputedStyle(document.querySelector(".swagger-ui")).backgroundColor')
        .then((color) => color.match(/\d+/g) ?? []);
      t.equal(Number(ground) < 64 && ground !== '0', colorScheme === 'dark', `the ground is ${ground}`);
      await operation.locator('button').first().click();
      await operation.getByText('Try it out').click();
      await operation.getByText('Execute', { exact: true }).click();
      await operation.locator('.live-responses-table').waitFor({ timeout: 30_000 });
      t.match(await operation.locator('.live-responses-table').textContent(), /200[\s\S]*profileId/);
      await shoot('docs-open');
      const width = await page.evaluate<number>('document.documentElement.scrollWidth');
      t.ok(width <= viewport.width, `${width} px of ${viewport.width}`);
      t.same(said, [], 'nothing is refused by the policy, nothing fails');
      t.ok(
        asked.every((url) => url.startsWith(urlOf(app)) || url.startsWith('data:')),
        'all of it from here',
      );
    });
  }
});

/** For people to look at: DOCS_SHOTS=<folder>. */
async function shot(
  page: { screenshot(options: { path: string }): Promise<unknown> },
  name: string,
): Promise<void> {
  const folder = process.env['DOCS_SHOTS'];
  if (folder) await page.screenshot({ path: `${folder}/${name}.png` });
}

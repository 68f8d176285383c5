// What the beacon leaves alone, and where it runs, in a real browser: it is a guest on the shop's pages.
// A test fails as soon as a page sees an error.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import {
  answers,
  countOf,
  eventually,
  inChromium,
  STORED,
  sessionOf,
  tag,
  urlOf,
  VISIT_PATH,
  visit,
  type World,
} from '../harness/storefront.js';

await inChromium(t, async (t, world) => {
  const { redis, shop, app, service } = world;

  await t.test('Global Privacy Control: no visit, no id, and an id of before is gone', async (t) => {
    const visitor = await visit(t, world);
    const before = await visitor.open(shop.show('/before', tag(service, 'private')));
    const sessionId = await sessionOf(before);
    await eventually(t, () => countOf(app, sessionId, 'private'), 1);

    const gpc = "<script>Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })</script>";
    const page = await visitor.open(shop.show('/private', gpc + tag(service, 'private')));
    t.equal(await page.evaluate("wishmeter.visit('private'), wishmeter.count('private')"), 0);
    await sleep(200);
    t.equal(visitor.sent('POST').length, 1);
    t.same(visitor.sent('GET'), []);
    t.equal(await page.evaluate('localStorage.length + sessionStorage.length + document.cookie.length'), 0);
    t.equal(await countOf(app, sessionId, 'private'), 1);
  });

  await t.test('where localStorage is refused, the page is the session', async (t) => {
    const visitor = await visit(t, world);
    const refuse = "get() { throw new DOMException('denied', 'SecurityError') }";
    const html = `<script>Object.defineProperty(window, 'localStorage', { ${refuse} })</script>`;
    const page = await visitor.open(shop.show('/refused', html + tag(service, 'refused')));
    await page.evaluate("wishmeter.visit('refused')");
    await eventually(t, () => page.evaluate("wishmeter.count('refused')"), 2);
  });

  await t.test('where localStorage is full, the page is the session', async (t) => {
    const visitor = await visit(t, world);
    const full = `for (let n = 2 ** 22; n >= 1; n /= 2) try { while (true) localStorage[n + Math.random()] = 'x'.repeat(n) } catch {}`;
    const page = await visitor.open(shop.show('/full', `<script>${full}</script>${tag(service, 'full')}`));
    await page.evaluate("wishmeter.visit('full')");
    await eventually(t, () => page.evaluate("wishmeter.count('full')"), 2);
    t.equal(await page.evaluate(STORED), null);
  });

  await t.test('a wrong key counts nothing', async (t) => {
    await refused(t, world, shop.show('/wrong', tag(service, 'wrong', 'pk_wrong_0123456789')), 'wrong', 401);
  });

  await t.test('a page of an origin that is not allowed counts nothing', async (t) => {
    shop.show('/elsewhere', tag(service, 'elsewhere'));
    await refused(t, world, `http://127.0.0.1:${shop.port}/elsewhere`, 'elsewhere', 403);
  });

  await t.test('without a network nothing is counted', async (t) => {
    const visitor = await visit(t, world);
    const page = await visitor.open(shop.show('/offline', tag(service)));
    await visitor.offline();
    t.equal(await page.evaluate("navigator.sendBeacon = undefined, wishmeter.visit('offline')"), undefined);
    t.equal(await page.evaluate("wishmeter.count('offline')"), 0);
  });

  await t.test('copied into the page, so that it knows no service, it does nothing', async (t) => {
    const visitor = await visit(t, world);
    const { text } = await app.get('/beacon.js');
    const page = await visitor.open(shop.show('/inline', `<script data-product-handle="x">${text}</script>`));
    t.equal(await page.evaluate("wishmeter.visit('x'), wishmeter.count('x')"), 0);
    t.same(visitor.sent('POST'), []);
    await visitor.open(shop.show('/module', `<script type="module">${text}</script>`));
  });

  await t.test(
    'a page with a strict CSP, isolated from other origins, names the service and nothing more',
    async (t) => {
      const visitor = await visit(t, world);
      const page = await visitor.open(
        shop.show('/strict', tag(service, 'strict'), {
          'content-security-policy': `default-src 'none'; img-src data:; script-src ${service}; connect-src ${service}`,
          'cross-origin-embedder-policy': 'require-corp',
          'cross-origin-opener-policy': 'same-origin',
        }),
      );
      t.equal(await page.evaluate('crossOriginIsolated'), true);
      await eventually(t, () => page.evaluate("wishmeter.count('strict')"), 1);
    },
  );

  await t.test("behind the shop's own host, under BASE_PATH", async (t) => {
    const env = { ...world.env, VISIT_ACCESS: 'key', BASE_PATH: '/apps/wm' };
    const app = await startApp(t, redis, { env });
    shop.forward('/apps/wm', app.port);
    const visitor = await visit(t, world);
    const page = await visitor.open(shop.show('/own', tag('/apps/wm', 'own')));
    const sessionId = await sessionOf(page);
    const path = withQuery(`/apps/wm${VISIT_PATH}`, { sessionId, productHandle: 'own' });
    await eventually(t, async () => (await app.get(path, TRUSTED)).json.count, 1);
    t.equal(await page.evaluate("wishmeter.count('own')"), 1);
  });

  await t.test('without a key, in a frame that has no origin and no localStorage', async (t) => {
    const app = await startApp(t, redis, { env: world.env });
    const visitor = await visit(t, world);
    shop.show('/inside', tag(urlOf(app), 'inside', ''));
    await visitor.open(shop.show('/frame', '<iframe sandbox="allow-scripts" src="/inside"></iframe>'));
    await eventually(t, async () => visitor.sent('POST').length, 1);
    const { sessionId } = visitor.sent('POST')[0]?.body.identity ?? {};
    await eventually(t, () => countOf(app, sessionId, 'inside'), 1);
  });
});

/** The service refuses a page's visit with `status`; the page hears nothing of it. */
async function refused(t: Test, world: World, url: string, handle: string, status: number): Promise<void> {
  const { app } = world;
  const { [status]: before = 0, 200: counted = 0 } = await answers(app);
  const visitor = await visit(t, world);
  const page = await visitor.open(url);
  await eventually(t, async () => (await answers(app))[status], before + 1);
  await page.evaluate(`navigator.sendBeacon = undefined, wishmeter.visit('${handle}')`);
  await eventually(t, async () => (await answers(app))[status], before + 2);
  t.equal(await page.evaluate(`wishmeter.count('${handle}')`), 0);
  t.equal((await answers(app))['200'] ?? 0, counted);
  t.equal(await countOf(app, await sessionOf(page), handle), 0);
}

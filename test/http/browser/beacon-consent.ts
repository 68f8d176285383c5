// What the beacon leaves alone, and where it runs, in a real browser: it is a guest on the shop's pages.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { startApp } from '../../harness/app.js';
import {
  type BrowserFixtures,
  countOf,
  eventually,
  PUBLISHABLE,
  STORED,
  sessionOf,
  tag,
  urlOf,
  type Visitor,
  visit,
} from '../../harness/storefront.js';

export async function beaconConsent(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { redis, shop, service } = fixtures;
  const count = (page: Page, handle: string) => page.evaluate(`wishmeter.count('${handle}')`);

  async function expectNothing(t: Test, visitor: Visitor, page: Page, sent = 0): Promise<void> {
    const calls = ["visit('x')", "count('x')", "counts(['x'])", 'session()', 'forget()'];
    const all = `Promise.all([${calls.map((call) => `wishmeter.${call}`)}])`;
    t.same(await page.evaluate(all), Array(5).fill(undefined));
    t.equal((await visitor.sent()).length, sent);
    t.equal(await page.evaluate('localStorage.length + sessionStorage.length + document.cookie.length'), 0);
  }

  await t.test(
    'under Global Privacy Control the beacon sends and stores nothing, and the console says so',
    async (t) => {
      const gpc =
        "<script>Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })</script>";
      const visitor = await visit(t, fixtures);
      const before = await visitor.open(shop.show('/before', tag(service, 'private')));
      t.equal(await count(before, 'private'), 1);
      const page = await visitor.open(shop.show('/private', gpc + tag(service, 'private')));
      await expectNothing(t, visitor, page, 2);
      t.same(visitor.infos, ['wishmeter: nothing is sent: Global Privacy Control']);
    },
  );

  await t.test('automated browsers and robots do not count', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const page = await visitor.open(shop.show('/before', '<h1>before</h1>'));
    const robots = shop.show('/robots', tag(service, 'robots'));
    const devtools = await visitor.context.newCDPSession(page);
    await devtools.send('Emulation.setAutomationOverride', { enabled: true });
    await page.goto(robots);
    t.equal(await page.evaluate('navigator.webdriver'), true);
    await expectNothing(t, visitor, page);
    await devtools.send('Emulation.setAutomationOverride', { enabled: false });

    const google = '(compatible; Googlebot/2.1; +http://www.google.com/bot.html)';
    for (const robot of [google, 'DatadogSynthetics']) {
      const userAgent = `Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36 ${robot}`;
      await devtools.send('Emulation.setUserAgentOverride', { userAgent });
      await page.goto(robots);
      t.equal(await page.evaluate('navigator.userAgent'), userAgent);
      await expectNothing(t, visitor, page);
    }
    const phone =
      'Mozilla/5.0 (Linux; Android 13; CUBOT P80) AppleWebKit/537.36 Chrome/150.0 Mobile Safari/537.36';
    await devtools.send('Emulation.setUserAgentOverride', { userAgent: phone });
    await page.goto(robots);
    t.equal(await count(page, 'robots'), 1, phone);
  });

  await t.test('if nothing is counted, answers are undefined, and the console says once why', async (t) => {
    const closed = urlOf(await startApp(t, redis));
    const editor =
      '<script>window.Shopify = { designMode: true, customerPrivacy: { analyticsProcessingAllowed: () => true } }</script>';
    const shoe = tag(service, 'shoe');
    const pages: readonly [name: string, html: string, said: RegExp | undefined, counted?: number][] = [
      ['editor', editor + shoe, /^wishmeter: nothing is sent: theme editor$/],
      ['wrong-key', tag(service, 'shoe', 'pk_wrong_0123456789'), /^wishmeter: 401 ./],
      [
        'elsewhere',
        tag(closed, 'shoe', ''),
        /^wishmeter: no answer from http:.* ALLOWED_ORIGINS lacks http:/,
      ],
      ['home', tag(service), /^wishmeter: no product handle, no visit$/, 1],
      ['counted', shoe, undefined, 2],
    ];
    for (const [name, html, said, counted] of pages) {
      const visitor = await visit(t, fixtures);
      const page = await visitor.open(shop.show(`/says-${name}`, html));
      const asked =
        "Promise.all([wishmeter.visit('shoe'), wishmeter.count('shoe'), wishmeter.counts(['shoe'])])";
      const answers = [counted, counted, counted && { shoe: counted }];
      t.same(await page.evaluate(asked), answers, name);
      t.equal(visitor.infos.length, said === undefined ? 0 : 1, name);
      if (said !== undefined) t.match(visitor.infos[0], said, name);
      if (name === 'editor') await expectNothing(t, visitor, page);
    }
  });

  await t.test('with data-consent a visit waits for wishmeter.consent(true)', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.clock.install();
    const url = shop.show('/asks', tag(service, 'asks', PUBLISHABLE, 'defer data-consent'));
    const page = await visitor.open(url);
    const early = page.evaluate("wishmeter.visit('asks')");
    await page.clock.runFor(5000);
    t.equal(await early, undefined);
    t.match(visitor.infos, [/: wishmeter.consent\(true\) is awaited$/]);
    t.equal(await page.evaluate(STORED), null);
    t.same(await visitor.sent(), []);

    await page.evaluate('wishmeter.consent(true)');
    t.equal(await count(page, 'asks'), 2, 'the view of the page, and the visit that it asked for');
    const stored = await page.evaluate(STORED);
    t.type(stored, 'string');
    await page.reload();
    t.equal(await page.evaluate(STORED), stored, 'a page that has not heard of consent keeps the id');
    t.equal((await visitor.sent()).length, 3, 'and sends nothing');
    await page.evaluate('wishmeter.consent(true), wishmeter.consent(false)');
    t.equal(await page.evaluate(STORED), null, 'a refusal removes it');
  });

  await t.test("nothing is sent before Shopify's customer-privacy API allows analytics", async (t) => {
    const visitor = await visit(t, fixtures);
    // As on Shopify's pages: a queue until the loader is there, then the API, then the visitor decides.
    const shopify = `<script>
      const asked = [];
      window.Shopify = { loadFeatures: (...call) => asked.push(call) };
      const load = (allowed) => {
        window.allowed = allowed;
        Shopify.customerPrivacy = { analyticsProcessingAllowed: () => window.allowed };
        for (const [features, done] of asked.splice(0)) if (features[0].name === 'consent-tracking-api') done();
      };
      const choose = (analyticsAllowed) => {
        window.allowed = analyticsAllowed;
        document.dispatchEvent(new CustomEvent('visitorConsentCollected', { detail: { analyticsAllowed } }));
      };
    </script>`;
    const url = shop.show('/shopify', tag(service, 'shopify', PUBLISHABLE, '') + shopify);
    const page = await visitor.open(url);
    t.equal(await page.evaluate('typeof wishmeter.visit'), 'function');
    t.same(await visitor.sent(), [], 'the API is not there yet');
    await page.evaluate('load(false)');
    t.equal(await page.evaluate(STORED), null);
    t.same(await visitor.sent(), [], 'the visitor has not decided');
    await page.evaluate('choose(true)');
    t.equal(await count(page, 'shopify'), 1, 'the view of the page, once consent is there');
    t.type(await page.evaluate(STORED), 'string');

    await page.reload();
    t.type(await page.evaluate(STORED), 'string', 'kept while the API is on its way');
    await page.evaluate('load(true)');
    t.equal(await count(page, 'shopify'), 2);
    await page.evaluate('choose(false)');
    t.equal(await page.evaluate(STORED), null, 'consent was withdrawn');
    t.equal((await visitor.sent()).length, 4);
  });

  await t.test('if localStorage is forbidden or full, the session lasts as long as the page', async (t) => {
    const refuse = "get() { throw new DOMException('denied', 'SecurityError') }";
    const full = `for (let n = 2 ** 22; n >= 1; n /= 2) try { while (true) localStorage[n + Math.random()] = 'x'.repeat(n) } catch {}`;
    for (const [how, script] of [
      ['refused', `Object.defineProperty(window, 'localStorage', { ${refuse} })`],
      ['full', full],
    ] as const) {
      const visitor = await visit(t, fixtures);
      const html = `<script>${script}</script>${tag(service, how, PUBLISHABLE, 'defer data-customer="a"')}`;
      const page = await visitor.open(shop.show(`/${how}`, html));
      t.equal(await page.evaluate(`wishmeter.visit('${how}')`), 2, how);
      const sessionId = await sessionOf(page);
      t.equal(await sessionOf(page), sessionId);
      t.not(await page.evaluate('wishmeter.forget()'), sessionId);
      if (how === 'full') t.equal(await page.evaluate(STORED), null);
    }
  });

  await t.test('a visit without a key counts in a frame without origin and localStorage', async (t) => {
    const app = await startApp(t, redis, { env: fixtures.env });
    shop.show('/inside', tag(urlOf(app), 'inside', ''));
    const visitor = await visit(t, fixtures);
    await visitor.open(shop.show('/frame', '<iframe sandbox="allow-scripts" src="/inside"></iframe>'));
    const sent = async () => (await visitor.sent()).filter(({ body }) => body.productHandle === 'inside');
    await eventually(t, async () => (await sent()).length, 1);
    const { sessionId } = (await sent())[0]?.body.identity ?? {};
    await eventually(t, () => countOf(app, sessionId, 'inside'), 1);
    const bare = await visitor.open(shop.show('/bare', tag(urlOf(app), '', '', 'type="module"')));
    t.equal(await bare.evaluate("wishmeter.visit('bare')"), 1, 'a module without attributes finds its tag');
  });
}

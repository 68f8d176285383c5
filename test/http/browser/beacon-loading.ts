// How a page loads the beacon where its tag does not say everything: tag managers, imports, optimisers that inline it.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { type BrowserFixtures, PUBLISHABLE, tag, VISIT_PATH, visit } from '../../harness/storefront.js';

export async function beaconLoading(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const src = `${service}/beacon.js`;
  const options = (more: Readonly<Record<string, string>>) =>
    `window.wishmeterOptions = ${JSON.stringify({ key: PUBLISHABLE, ...more })};`;
  const count = (page: Page, handle: string) => page.evaluate(`wishmeter.count('${handle}')`);
  const inlined = async () => (await app.get('/beacon.js')).text;

  await t.test('window.wishmeterOptions replaces data attributes that a tag manager drops', async (t) => {
    const visitor = await visit(t, fixtures);
    // As Google Tag Manager does: each script is made anew, with its src and without attributes that are not known.
    const manager = `<script>addEventListener('load', () => {
      const first = document.createElement('script');
      first.text = ${JSON.stringify(options({ productHandle: 'managed', customer: 'cafe' }))};
      const second = document.createElement('script');
      second.async = true;
      second.src = '${src}';
      second.onload = () => window.loaded();
      document.body.append(first, second);
    })</script><script>window.ready = new Promise((done) => { window.loaded = done; })</script><body>`;
    const page = await visitor.open(shop.show('/managed', manager));
    await page.evaluate('ready');
    t.equal(await count(page, 'managed'), 1);
    t.equal((await visitor.sent())[0]?.path, `${VISIT_PATH}?count=true&key=${PUBLISHABLE}`);
    t.match(await page.evaluate('localStorage.wishmeter_session'), / cafe$/);
    t.same(visitor.warnings, []);
  });

  await t.test('an imported, inlined or late script finds its tag or its options', async (t) => {
    const visitor = await visit(t, fixtures);
    const script = await inlined();
    const ways = [
      `<script type="module">${options({ src, productHandle: 'way' })} await import('${src}');</script>`,
      `<script>${options({ src, productHandle: 'way' })}</script><script>${script}</script>`,
      `<script>${options({ src, productHandle: 'way' })}</script><script type="module">${script}</script>`,
      // As optimisers delay scripts: the tag is there, and its text is run later.
      `${tag(service, 'way', PUBLISHABLE, 'type="text/delayed"')}<script>setTimeout(() => (0, eval)(${JSON.stringify(script)}))</script>`,
    ];
    for (const [i, html] of ways.entries()) {
      const page = await visitor.open(shop.show('/way', html));
      await page.waitForFunction('window.wishmeter');
      t.equal(await count(page, 'way'), i + 1, html.slice(0, 40));
    }
    t.same(visitor.warnings, []);
  });

  await t.test("options stand above a tag's attributes, and their src may be relative", async (t) => {
    const visitor = await visit(t, fixtures);
    const above = `<script>window.wishmeterOptions = { productHandle: 'above' }</script>`;
    const page = await visitor.open(shop.show('/above', above + tag(service, 'below')));
    t.equal(await count(page, 'above'), 1);
    t.equal(await count(page, 'below'), 0);
    shop.forward('/apps/wm', app.port, (url) => url.slice('/apps/wm'.length));
    const near = `<script>${options({ src: '/apps/wm/beacon.js', productHandle: 'near' })}</script>`;
    await page.goto(shop.show('/near', `${near}<script>${await inlined()}</script>`));
    t.equal(await count(page, 'near'), 1);
  });

  await t.test('a beacon without a tag of its own warns once, and sends and stores nothing', async (t) => {
    const script = await inlined();
    const ways = [
      `<script data-product-handle="x">${script}</script>`,
      `<script type="module">${script}</script>`,
      `<script type="module">await import('${src}'); window.done = true;</script>`,
      // Another service's beacon.
      `<script src="/beacon.js"></script><script>${script}</script>`,
    ];
    for (const html of ways) {
      const visitor = await visit(t, fixtures);
      const page = await visitor.open(shop.show('/lost', `<div id="wishmeter"></div>${html}`));
      if (html.includes('window.done')) await page.waitForFunction('window.done');
      t.match(visitor.warnings, [/^wishmeter: .*wishmeterOptions\.src/], html.slice(0, 40));
      t.equal(visitor.warnings.length, 1);
      t.same(await visitor.sent(), []);
      t.equal(await page.evaluate('localStorage.length'), 0);
    }
  });
}

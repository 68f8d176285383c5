// The page of a shared wishlist in a real browser: hostile items can do nothing; how it looks on a phone and in a theme.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { startApp, TRUSTED } from '../../harness/app.js';
import { proxied, SECRET } from '../../harness/app-proxy.js';
import { type BrowserFixtures, urlOf } from '../../harness/storefront.js';
import { itemOf } from '../wishlist.js';

/** One of the hosts that IMAGE_HOSTS has by default; each picture is a 404. */
const PICTURES = 'https://cdn.shopify.com';
const PWN = 'window.pwned=1';
const HOSTILE = [
  `<script>${PWN}</script>`,
  `"><img src=x onerror="${PWN}">`,
  `' onfocus='${PWN}' autofocus='`,
  `</style></section><svg onload=${PWN}></svg>`,
  '{{ shop.secret }}{% raw %}',
  '\u202eevil\u2066 \u05d0',
  'W'.repeat(1_024),
];

export async function sharePage(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { redis, shop } = fixtures;
  const app = await startApp(t, redis, { env: { SHOP_URL: shop.origin, SHOPIFY_SECRET: SECRET } });

  const share = async (sessionId: string, items: readonly object[]): Promise<string> => {
    for (const [i, item] of items.toReversed().entries()) {
      const image = `${PICTURES}/picture-${i}.png`;
      const body = itemOf({ sessionId }, { productId: `${i}`, image, ...item });
      t.equal((await app.post('/item/add', body, TRUSTED)).status, 200);
    }
    return `/wishlist/share/${(await app.post('/share', { identity: { sessionId } }, TRUSTED)).json.code}`;
  };
  const ordinary = await share('ordinary', [
    { productTitle: 'Red shoe', productHandle: 'red-shoe' },
    { productTitle: 'Blue hat', productHandle: 'blue-hat', inventoryAvailable: false },
    { productTitle: 'Green tea', productHandle: 'green-tea', variantId: null, variantTitle: null },
  ]);
  // One profile for all, as on a phone.
  const phone = await openProfile(t, fixtures);

  t.test('hostile items stay text, run nothing, and only pictures are asked for', async (t) => {
    const path = await share('hostile', [
      ...HOSTILE.map((text) => ({
        productTitle: text,
        variantTitle: text,
        productHandle: text.slice(0, 99),
        image: `${PICTURES}/${text}`,
      })),
      ...[`javascript:${PWN}`, `data:text/html,<script>${PWN}</script>`].map((image, i) => ({
        productId: `address-${i}`,
        productTitle: image,
        variantTitle: null,
        image,
      })),
    ]);
    const { page, requests, errors } = await phone.open(urlOf(app) + path);
    await page.waitForLoadState('networkidle');
    const titles = await page.locator('h2 a').allTextContents();
    t.same(titles.slice(0, HOSTILE.length), HOSTILE);
    for (const [i, link] of (await page.locator('h2 a').all()).slice(0, HOSTILE.length).entries()) {
      const { origin, pathname } = new URL((await link.getAttribute('href')) ?? '');
      t.same([origin, decodeURIComponent(pathname)], [shop.origin, `/products/${HOSTILE[i]?.slice(0, 99)}`]);
    }
    const liquid = await app.get(proxied(path, { logged_in_customer_id: '' }));
    for (const { text } of [liquid, await app.get(path)]) t.notMatch(text, /\{[{%]/, 'nothing is Liquid');
    t.equal(await page.getByRole('img').count(), HOSTILE.length);
    t.same(new Set(requests.map(([kind]) => kind)), new Set(['document', 'image']));
    t.ok(requests.every(([kind, url]) => kind === 'document' || new URL(url).origin === PICTURES));
    for (const link of await page.locator('a').all()) await link.focus();
    t.equal(await page.evaluate('window.pwned'), undefined);
    t.equal(await page.locator('script, iframe, main svg[onload], [onerror], [onfocus]').count(), 0);
    const refused = errors.filter((text) => !text.includes('404'));
    t.same(refused, [], 'no policy was violated');
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390, 'nothing is wider');
    await t.rejects(page.addScriptTag({ content: PWN }), 'no script could run if one came in');
    t.equal(await page.evaluate('window.pwned'), undefined);
  });

  t.test(
    'the share page has two columns on a phone, four on a desktop, and follows the preferred colour scheme',
    async (t) => {
      const columns = "getComputedStyle(document.querySelector('ul')).gridTemplateColumns.split(' ').length";
      const ground = 'getComputedStyle(document.documentElement).backgroundColor';
      const { page } = await phone.open(urlOf(app) + ordinary);
      await page.emulateMedia({ colorScheme: 'dark' });
      t.equal(await page.evaluate(columns), 2);
      t.equal(await page.evaluate(ground), 'rgb(20, 18, 16)');
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize({ width: 1_280, height: 900 });
      t.equal(await page.evaluate(columns), 4);
      t.equal(await page.evaluate(ground), 'rgb(251, 249, 247)');
      const ratio =
        "(({ width, height }) => width / height)(document.querySelector('.wm-picture').getBoundingClientRect())";
      t.equal(await page.evaluate(ratio), 0.8, 'pictures that are not there yet move nothing');
    },
  );

  t.test("the share page's styles change nothing else of a theme", async (t) => {
    const liquid = await app.get(proxied(ordinary, { logged_in_customer_id: '' }));
    const url = shop.show('/theme', `<h1>shop</h1><ul><li>a</li></ul>${liquid.text}`);
    const { page, requests } = await phone.open(url);
    await page.waitForLoadState('networkidle');
    t.same(new Set(requests.map(([kind]) => kind)), new Set(['document', 'image']));
    const selectors = await page.evaluate<string[]>(`(() => {
      const rules = (list) => Array.from(list).flatMap((rule) =>
        rule.cssRules?.length ? rules(rule.cssRules) : (rule.selectorText ?? '').split(/, (?=\\.)/));
      return rules(document.styleSheets[0].cssRules);
    })()`);
    t.ok(selectors.length > 20, `${selectors.length} selectors`);
    for (const selector of selectors) t.match(selector, /^\.wm-share( |$)/);
    t.equal(await page.getByRole('listitem').count(), 4);
    // As Shopify's themes do.
    const size = await page.evaluate(`(() => {
      document.documentElement.style.fontSize = '62.5%';
      document.body.style.fontSize = '1.6rem';
      return getComputedStyle(document.querySelector('.wm-share h2')).fontSize;
    })()`);
    t.equal(size, '16px');
  });
}

async function openProfile(t: Test, { browser }: BrowserFixtures) {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 } });
  t.teardown(() => context.close());
  context.setDefaultTimeout(60_000);
  await context.route(`${PICTURES}/**`, (route) => route.fulfill({ status: 404 }));
  const page: Page = await context.newPage();
  const requests: [kind: string, url: string][] = [];
  const errors: string[] = [];
  page.on('request', (request) => requests.push([request.resourceType(), request.url()]));
  page.on('console', (message) => errors.push(message.text()));
  page.on('dialog', (dialog) => t.fail(`a dialog: ${dialog.message()}`));
  return {
    async open(url: string) {
      await page.goto('about:blank');
      requests.length = 0;
      errors.length = 0;
      await page.goto(url, { waitUntil: 'load' });
      return { page, requests, errors };
    },
  };
}

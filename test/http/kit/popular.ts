// What others saved: the number beside a heart, and <wishlist-popular>, from one request of GET /popular.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { popular, popularWith } from '../../../src/extras/popular/extra.js';
import { SHARED, startDatabases } from '../../clickhouse/databases.js';
import { eventRow } from '../../flush/fixtures.js';
import { startApp } from '../../harness/app.js';
import { extrasWith } from '../../harness/extras.js';
import { type BrowserFixtures, eventually, sessionOf, urlOf, visit } from '../../harness/storefront.js';
import { until } from '../../harness/until.js';
import { becomes, faultsOf, heartTag, press, showKit } from './shop.js';

const LOOKS = { everyMs: 60_000, again: { firstMs: 20, longestMs: 20 }, deadlineMs: 60_000 };
const BLOCK = '<wishlist-popular top="3"></wishlist-popular>';
const savedBy = (visitors: number, product: string) =>
  Array.from({ length: visitors }, (_, i) =>
    eventRow({ profile_id: `v${i}`, product_id: product, product_handle: `shoe-${product}` }),
  );

export async function kitPopular(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, redis, env } = fixtures;
  const { url, emptied } = await startDatabases(t);
  const popularOnes = ['201', '202', '203', '204', '205'].flatMap((id, i) => savedBy(9 - i, id));
  await emptied(...savedBy(1234, '1'), ...savedBy(4, '2'), ...popularOnes);
  const app = await startApp(t, redis, {
    extras: extrasWith(popularWith(LOOKS), popular),
    env: { ...env, CLICKHOUSE_URL: url, CLICKHOUSE_DATABASE: SHARED },
  });
  await until('the first look has ended', async () => (await app.get('/popular?top=1')).status === 200);
  const asking = { ...fixtures, app, service: urlOf(app) };

  /** A visitor, and the queries of the requests to /popular. */
  const watched = async (t: Test) => {
    const visitor = await visit(t, asking, {});
    const asked: URLSearchParams[] = [];
    visitor.context.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/popular') asked.push(searchParams);
    });
    return { ...visitor, asked };
  };
  const number = (id: number | string) => `wishlist-heart[product-id="${id}"] [part=popular]`;

  await t.test('a heart with `popular` shows how many saved its product, and a page asks once', async (t) => {
    const { asked, ...visitor } = await watched(t);
    const hearts = [3, 2, 1].map((id) => heartTag(id, 'popular')).join('') + heartTag(7);
    const shifts = `<script>window.shifts = []; new PerformanceObserver((list) => shifts.push(...list.getEntries()))
      .observe({ type: 'layout-shift', buffered: true });</script>`;
    const address = showKit(asking, '/numbers', `<body>${shifts}${hearts} and more`);
    const page = await visitor.open(address);
    await page.locator(number(1)).getByText('1,234').waitFor();
    t.ok(await page.getByRole('button', { name: 'Wishlist: Shoe 1, Saved by 1,234' }).isVisible());
    for (const id of [2, 3]) t.equal(await page.locator(number(id)).isVisible(), false, 'few saved it');
    t.equal(await page.locator(number(7)).count(), 0, 'no number was asked for');
    t.same(asked.map(String), ['productId=1&productId=2&productId=3'], 'without the key');
    t.equal(await page.evaluate('shifts.length'), 0, 'nothing moves');
    await press(page);
    await becomes(page, 'saved');
    t.ok(await page.getByRole('button', { name: 'Wishlist: Shoe 1, Saved by 1,234' }).isVisible());
    const answers = () => app.figure('http_answers_total{operation="get /popular",status="200"}');
    const before = await answers();
    await page.goto(shop.show('/elsewhere', 'elsewhere'));
    await page.goto(address);
    await page.locator(number(1)).getByText('1,234').waitFor();
    t.equal(await answers(), before, 'the browser keeps the answer');
    t.same(visitor.warnings, []);
  });

  await t.test(
    'the numbers of 150 hearts are two requests, and hearts that come later another',
    async (t) => {
      const { asked, ...visitor } = await watched(t);
      const many = Array.from({ length: 150 }, (_, i) => heartTag(i + 1, 'popular')).join('');
      const page = await visitor.open(showKit(asking, '/many-numbers', `<main>${many}</main>`));
      await page.locator(number(1)).getByText('1,234').waitFor();
      await eventually(t, async () => asked.length, 2);
      t.same(
        asked.map((query) => query.getAll('productId').length),
        [100, 50],
      );
      const more = heartTag(1, 'popular') + heartTag(201, 'popular');
      await page.evaluate(
        `document.querySelector('main').insertAdjacentHTML('afterbegin', ${JSON.stringify(more)})`,
      );
      await page.locator(number(201)).getByText('9').waitFor();
      t.equal(await page.locator(number(1)).first().textContent(), '1,234');
      t.same(asked.slice(2).map(String), ['productId=201'], 'what is known is not asked for');
    },
  );

  const cards = (page: Page) => page.locator('wishlist-popular [part~=row]');
  /** @returns for each card the texts of these parts */
  const textsOf = async (page: Page, ...parts: readonly string[]) =>
    Promise.all(
      (await cards(page).all()).map((card) =>
        Promise.all(parts.map((part) => card.locator(`[part=${part}]`).textContent())),
      ),
    );

  await t.test(
    '<wishlist-popular> shows the most saved products, each with a heart that saves it',
    async (t) => {
      const { asked, ...visitor } = await watched(t);
      const products = `<html lang="en"><script>window.wishmeterOptions = { products: async (items) => items.map(({ productId }) =>
      ({ productId, variantId: productId + '1', productTitle: 'Product ' + productId, price: '19.90', currencyCode: 'EUR' }))
      .filter(({ productId }) => productId !== '202') };</script>`;
      const body = `${products}<main><h1>Shop</h1>${BLOCK}${heartTag(1, 'popular')}</main>`;
      const page = await visitor.open(showKit(asking, '/most-saved', body));
      await cards(page).first().waitFor();
      t.same(
        await cards(page).locator('[part=title]').allTextContents(),
        ['Product 1', 'Product 201'],
        '202 is gone',
      );
      t.ok(await page.getByRole('heading', { name: 'Most wished' }).isVisible());
      t.same(await textsOf(page, 'price', 'popular'), [
        ['€19.90', '1,234'],
        ['€19.90', '9'],
      ]);
      await page.locator(number(1)).getByText('1,234').waitFor();
      t.same(asked.map(String), ['top=3'], 'the same answer has the number of a heart elsewhere');
      await cards(page).nth(1).getByRole('button', { name: 'Wishlist: Product 201, Saved by 9' }).click();
      await page.locator('wishlist-popular wishlist-heart[state=saved]').waitFor();
      const sessionId = await sessionOf(page);
      const saved = { productId: '201', variantId: '2011', productTitle: 'Product 201', price: '19.90' };
      await eventually(t, async () => (await app.shop.items({ sessionId })).length, 1);
      t.match(await app.shop.items({ sessionId }), [
        { ...saved, productHandle: 'shoe-201', currencyCode: 'EUR' },
      ]);
      t.same(await faultsOf(page), []);
      await page.evaluate("document.querySelector('wishlist-popular').setAttribute('top', 5)");
      await cards(page).nth(3).waitFor();
      t.same(visitor.warnings, []);
    },
  );

  await t.test(
    "in Shopify <wishlist-popular> shows what the products' JSON has, without deleted ones",
    async (t) => {
      const variants = [{ id: 2011, price: 4990, compare_at_price: 5990, available: true }];
      const shoe = { id: 201, handle: 'shoe-201', title: 'Shoe', price: 4990, available: true, variants };
      const { asked, ...visitor } = await watched(t);
      await visitor.context.route(/products\/shoe-201\.js/, (route) => route.fulfill({ json: shoe }));
      const shopify = `<script>window.Shopify = { currency: { active: 'EUR' }, customerPrivacy: { analyticsProcessingAllowed: () => true },
      loadFeatures: (_, done) => done() };</script>`;
      const page = await visitor.open(
        showKit(asking, '/shopify-most-saved', `<html lang="en">${shopify}${BLOCK}`),
      );
      await cards(page).first().waitFor();
      t.same(await cards(page).count(), 1);
      t.same(await textsOf(page, 'title', 'price', 'was', 'popular'), [['Shoe', '€49.90', '€59.90', '9']]);
      t.match(await cards(page).locator('a').getAttribute('href'), /\/products\/shoe-201\?variant=2011$/);
      t.equal(asked.length, 1);
      t.same(visitor.warnings, []);
    },
  );

  await t.test('without numbers hearts work, the block is empty, and the console says why', async (t) => {
    const visitor = await visit(t, fixtures, {}); // This service has no ClickHouse.
    const page = await visitor.open(showKit(fixtures, '/no-numbers', `${heartTag(1, 'popular')}${BLOCK}`));
    await page.locator('wishlist-popular[state=error]').waitFor({ state: 'attached' });
    await press(page);
    await becomes(page, 'saved');
    t.equal(await page.getByRole('heading').count(), 0);
    await until('it says why', () => visitor.warnings.some((text) => /no ClickHouse/.test(text)));
    t.equal(await page.getByRole('button', { name: 'Wishlist: Shoe 1', exact: true }).count(), 1);
  });

  await t.test('a page without such elements, and one without consent, ask for no numbers', async (t) => {
    const { asked, ...visitor } = await watched(t);
    const page = await visitor.open(showKit(asking, '/no-popular', heartTag(1)));
    await becomes(page, '');
    await page.goto(showKit(asking, '/no-consent', heartTag(1, 'popular') + BLOCK, 'data-consent'));
    await page.locator('wishlist-popular[state=off]').waitFor({ state: 'attached' });
    await page.waitForLoadState('networkidle');
    t.same(asked, []);
    await page.evaluate('wishmeter.consent(true)');
    await page.locator(number(1)).first().getByText('1,234').waitFor();
    await page.getByRole('heading', { name: 'Most wished' }).waitFor();
    await page.evaluate('wishmeter.consent(false)');
    await page.getByRole('heading', { name: 'Most wished' }).waitFor({ state: 'hidden' });
  });
}

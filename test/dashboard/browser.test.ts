// The dashboard in a real browser: the figures are SQL's, and it can be used with a phone, by keyboard, in the dark, in
// an empty shop and while ClickHouse is away.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { findChromium, launchChromium } from '../harness/chromium.js';
import { needs } from '../harness/needs.js';
import { dashboardOfShop, MONTH, TOKEN } from './fixtures.js';

const found = findChromium();
const RANGE = `?from=${MONTH.from}&to=${MONTH.to}`;
/** A page whose figures are all there. */
const DRAWN = '[data-panel="days"][aria-busy="false"]';
/** A browser on a busy machine takes its time. */
const PATIENCE = { timeout: 45_000 };

/** Opens the dashboard with the token. */
async function open(
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
  range = RANGE,
) {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, ...options });
  t.teardown(() => context.close());
  const page: Page = await context.newPage();
  const foreign: string[] = [];
  const said: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) foreign.push(request.url());
  });
  page.on('console', (message) => message.type() === 'error' && said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  await page.goto(`${url}/${range}#token=${TOKEN}`);
  await page.waitForSelector(DRAWN, PATIENCE);
  return { page, foreign, said };
}

const tile = (page: Page, key: string) => page.locator(`[data-figure="${key}"] .value`).textContent();
const cells = (page: Page, panel: string, column: number) =>
  page.locator(`[data-panel="${panel}"] tbody td:nth-child(${column})`).allTextContents();

if ('missing' in found) t.test('in Chromium', needs(found.missing), () => {});
else
  t.test('in Chromium', async (t) => {
    const { url, client, stopClickHouse } = await dashboardOfShop(t);
    const browser = await launchChromium(t, found.file);
    const ask = async <T>(query: string): Promise<T[]> =>
      await (await client.query({ query, format: 'JSONEachRow' })).json<T>();
    const inMonth = `occurred_at >= '${MONTH.from}' AND occurred_at < '${MONTH.to}'::Date + 1`;

    await t.test('figures are those of SQL, and the token leaves the address', async (t) => {
      const { page, foreign, said } = await open(t, browser, url);
      for (const [key, query] of [
        ['visits', `SELECT count() AS n FROM visits WHERE ${inMonth}`],
        ['wishes', `SELECT count() AS n FROM events WHERE type = 'add' AND ${inMonth}`],
        ['carts', `SELECT count() AS n FROM events WHERE type = 'moveToCart' AND ${inMonth}`],
        ['orders', `SELECT uniqExact(order_id) AS n FROM purchases WHERE NOT test AND ${inMonth}`],
      ] as const)
        t.equal(await tile(page, key), String((await ask<{ n: string }>(query))[0]?.n), key);
      t.equal(await tile(page, 'revenue'), '€102.50', 'two shoes at 45 less 7.50, and a hat at 20');
      t.same(await page.locator('[data-panel="funnel"] strong').allTextContents(), ['7', '6', '1', '1']);
      t.match(await page.locator('[data-panel="funnel"] .body').textContent(), '€82.50');
      t.same(await cells(page, 'products', 2), ['3', '2', '1']);
      t.match((await cells(page, 'products', 1))[0], /^Green bag/);
      t.same(await cells(page, 'stock', 2), ['1']);
      t.equal(await page.locator('[data-panel="sources"] li').count(), 4);
      t.same(foreign, []);
      t.same(said, []);
      t.equal(new URL(page.url()).hash, '');
      t.equal(await page.evaluate('document.cookie'), '', 'no script sees the cookie');
      t.equal(await page.locator('#chart canvas').count(), 1);
    });

    await t.test('every panel shows its SQL and gives its rows', async (t) => {
      const { page } = await open(t, browser, url);
      const panels = await page.locator('[data-panel]').all();
      t.equal(panels.length, 8);
      for (const panel of panels) {
        await panel.locator('summary').click();
        const sql = (await panel.locator('.tools pre').textContent()) ?? '';
        t.match(sql, /^SELECT /);
        await ask(sql);
        const href = await panel.locator('a[download]').getAttribute('href');
        t.match(href, /^panels\/\w+\.csv\?from=/);
      }
      const download = page.waitForEvent('download', PATIENCE);
      await page.locator('[data-panel="products"] a[download]').click();
      t.equal((await download).suggestedFilename(), `wishmeter-products-${MONTH.from}-${MONTH.to}.csv`);
    });

    await t.test('a table is sorted by its headings; tiles are chosen by arrow keys', async (t) => {
      const { page } = await open(t, browser, url);
      const heading = page.locator('[data-panel="products"] th button', { hasText: 'Visitors' });
      await heading.focus();
      await page.keyboard.press('Enter');
      t.same(await cells(page, 'products', 3), ['4', '2', '2']);
      await page.keyboard.press('Enter');
      t.same(await cells(page, 'products', 3), ['2', '2', '4']);
      t.equal(await page.locator('[data-panel="products"] th[aria-sort="ascending"]').count(), 1);
      await page.locator('[data-figure="visits"]').focus();
      await page.keyboard.press('ArrowRight');
      t.equal(await page.evaluate('document.activeElement.dataset.figure'), 'wishes');
      t.match(
        await page.locator('#chart').getAttribute('aria-label'),
        /^Wishes by day: 7 in this time, 1 in the time before/,
      );
    });

    await t.test('on a phone nothing is wider than the screen; in the dark it is dark', async (t) => {
      const { page } = await open(t, browser, url, {
        viewport: { width: 390, height: 844 },
        colorScheme: 'dark',
      });
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
      t.equal(
        await page.evaluate('getComputedStyle(document.documentElement).backgroundColor'),
        'rgb(20, 18, 16)',
      );
    });

    await t.test('another time is another address, and the way back works', async (t) => {
      const { page } = await open(t, browser, url);
      await page.locator('input[name="to"]').fill(MONTH.from);
      await page.getByRole('button', { name: 'Show' }).click();
      await page.waitForURL((address) => address.searchParams.get('to') === MONTH.from, PATIENCE);
      await page.locator('[data-figure="visits"] .value', { hasText: /^0$/ }).waitFor(PATIENCE);
      await page.goBack();
      await page.locator('[data-figure="visits"] .value', { hasText: /^16$/ }).waitFor(PATIENCE);
    });

    await t.test('without the token one is asked for it, and a wrong one is refused', async (t) => {
      const context = await browser.newContext();
      t.teardown(() => context.close());
      const page = await context.newPage();
      await page.goto(url);
      await page.waitForSelector('#login:not([hidden])', PATIENCE);
      t.notOk(await page.locator('main').isVisible());
      await page.getByLabel('Token').fill('not the token');
      await page.keyboard.press('Enter');
      await page.getByText('That is not the token.').waitFor(PATIENCE);
      await page.getByLabel('Token').fill(TOKEN);
      await page.keyboard.press('Enter');
      await page.waitForSelector('main:not([hidden])', PATIENCE);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.waitForSelector('#login:not([hidden])', PATIENCE);
      t.same(await context.cookies(), []);
    });

    await t.test('without any figure the page says what to do', async (t) => {
      const { page, said } = await open(t, browser, url, {}, '?from=2024-01-01&to=2024-01-31');
      t.match(await page.locator('#empty').textContent(), /curl .*\/product\/visit/);
      t.ok(await page.locator('#empty').isVisible());
      t.equal(await tile(page, 'visits'), '0');
      t.same(said, []);
    });

    await t.test('while ClickHouse is away the page says so, and keeps what it has', async (t) => {
      const { page } = await open(t, browser, url);
      await stopClickHouse();
      await page.getByRole('button', { name: 'Show' }).click();
      await page.locator('#trouble', { hasText: 'ClickHouse does not answer.' }).waitFor(PATIENCE);
      t.equal(await tile(page, 'visits'), '16');
    });
  });

// The dashboard in a real browser: the figures are SQL's, and it can be used with a phone, by keyboard, in the dark, in
// an empty shop and while ClickHouse is away.

import type { Page } from 'playwright-core';
import t from 'tap';
import { makeSmallWorld } from '../clickhouse/small-world.js';
import { findChromium, launchChromium } from '../harness/chromium.js';
import { needs } from '../harness/needs.js';
import { dashboardWorld, MONTH, TOKEN } from './world.js';

const found = findChromium();
const RANGE = `?from=${MONTH.from}&to=${MONTH.to}`;
/** A page whose figures are all there. */
const DRAWN = '[data-panel="days"][aria-busy="false"]';

const tile = (page: Page, key: string) => page.locator(`[data-figure="${key}"] .value`).textContent();
const cells = (page: Page, panel: string, column: number) =>
  page.locator(`[data-panel="${panel}"] tbody td:nth-child(${column})`).allTextContents();

if ('missing' in found) t.test('in Chromium', needs(found.missing), () => {});
else
  t.test('in Chromium', async (t) => {
    const { url, client, stopClickHouse } = await dashboardWorld(t, true);
    const browser = await launchChromium(t, found.file);
    const context = await browser.newContext({ viewport: { width: 1_280, height: 900 } });
    t.teardown(() => context.close());
    // A browser on a busy machine takes its time.
    context.setDefaultTimeout(45_000);
    const page = await context.newPage();
    const foreign: string[] = [];
    const said: string[] = [];
    page.on('request', (request) => {
      if (!request.url().startsWith(url) && !request.url().startsWith('data:')) foreign.push(request.url());
    });
    page.on('console', (message) => message.type() === 'error' && said.push(message.text()));
    page.on('pageerror', (error) => said.push(error.message));
    const ask = async <T>(query: string): Promise<T[]> =>
      await (await client.query({ query, format: 'JSONEachRow' })).json<T>();

    await t.test('without the token one is asked for it, and a wrong one is refused', async (t) => {
      await page.goto(url);
      await page.waitForSelector('#login:not([hidden])');
      t.notOk(await page.locator('main').isVisible());
      await page.getByLabel('Token').fill('not the token');
      await page.keyboard.press('Enter');
      await page.getByText('That is not the token.').waitFor();
      await page.getByLabel('Token').fill(TOKEN);
      await page.keyboard.press('Enter');
      await page.waitForSelector('main:not([hidden])');
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.waitForSelector('#login:not([hidden])');
      t.same(await context.cookies(), []);
      said.length = 0; // the browser says that it was refused
    });

    await t.test('an empty shop says what to do', async (t) => {
      await page.goto(`${url}/${RANGE}#token=${TOKEN}`);
      await page.reload(); // an address that differs in its hash alone is no new page
      await page.waitForSelector(DRAWN);
      t.ok(await page.locator('#empty').isVisible());
      t.match(await page.locator('#empty').textContent(), /curl .*\/product\/visit/);
      t.equal(await tile(page, 'visits'), '0');
      t.equal(new URL(page.url()).hash, '', 'the token leaves the address');
    });

    await t.test('figures are those of SQL, and nothing is foreign', async (t) => {
      await makeSmallWorld(client);
      await page.reload();
      await page.waitForSelector(DRAWN);
      const inMonth = `occurred_at >= '${MONTH.from}' AND occurred_at < '${MONTH.to}'::Date + 1`;
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
      t.equal(await page.locator('#chart canvas').count(), 1);
      t.equal(await page.evaluate('document.cookie'), '', 'no script sees the cookie');
      t.same(foreign, []);
      t.same(said, []);
    });

    await t.test('every panel shows its SQL and gives its rows', async (t) => {
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
      const download = page.waitForEvent('download');
      await page.locator('[data-panel="products"] a[download]').click();
      t.equal((await download).suggestedFilename(), `wishmeter-products-${MONTH.from}-${MONTH.to}.csv`);
    });

    await t.test('a table is sorted by its headings; tiles are chosen by arrow keys', async (t) => {
      await page.locator('[data-panel="products"] th button', { hasText: 'Visitors' }).focus();
      await page.keyboard.press('Enter');
      t.same(await cells(page, 'products', 3), ['4', '2', '2']);
      await page.keyboard.press('Enter');
      t.same(await cells(page, 'products', 3), ['2', '2', '4']);
      t.equal(await page.locator('[data-panel="products"] th[aria-sort="ascending"]').count(), 1);
      await page.locator('[data-figure="visits"]').focus();
      await page.keyboard.press('ArrowRight');
      t.equal(await page.evaluate('document.activeElement.dataset.figure'), 'wishes');
      const label = await page.locator('#chart').getAttribute('aria-label');
      t.match(label, /^Wishes by day: 7 in this time, 1 in the time before/);
    });

    await t.test('another time is another address, and the way back works', async () => {
      await page.locator('input[name="to"]').fill(MONTH.from);
      await page.getByRole('button', { name: 'Show' }).click();
      await page.waitForURL((address) => address.searchParams.get('to') === MONTH.from);
      await page.locator('[data-figure="visits"] .value', { hasText: /^0$/ }).waitFor();
      await page.goBack();
      await page.locator('[data-figure="visits"] .value', { hasText: /^16$/ }).waitFor();
    });

    await t.test('on a phone nothing is wider than the screen; in the dark it is dark', async (t) => {
      await page.setViewportSize({ width: 390, height: 844 });
      await page.emulateMedia({ colorScheme: 'dark' });
      await page.reload();
      await page.waitForSelector(DRAWN);
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
      const ground = await page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
      t.equal(ground, 'rgb(20, 18, 16)');
    });

    await t.test('while ClickHouse is away the page says so, and keeps what it has', async (t) => {
      await stopClickHouse();
      await page.getByRole('button', { name: 'Show' }).click();
      await page.locator('#trouble', { hasText: 'ClickHouse does not answer.' }).waitFor();
      t.equal(await tile(page, 'visits'), '16');
    });
  });

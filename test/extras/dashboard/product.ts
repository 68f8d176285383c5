// A product's page over HTTP and in a browser: planted numbers, and a handle or title that never becomes SQL or HTML.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { PRODUCT_PANELS } from '../../../src/extras/dashboard/product-panels.js';
import { dateOf, insertVisits } from '../../clickhouse/small-world.js';
import { DRAWN, newPage, type PageFixtures } from './browser.js';
import { type Fixtures, MONTH, RANGE, TOKEN } from './fixtures.js';

const ODD = `o'x\\"<img src=x onerror=document.title='run'>{handle:String}$&ü日本`;

interface Answer {
  readonly sql: string;
  readonly names: readonly string[];
  readonly rows: readonly unknown[][];
}

export async function productOverHttp(t: Test, { url, client, session }: Fixtures): Promise<void> {
  await insertVisits(client, [
    ['hal', ODD, 12, 10],
    ['ida', ODD, 13, 10],
  ]);
  await client.insert({
    table: 'events_stored',
    values: [
      {
        ...{
          event_id: '00000000-0000-7000-8000-000000000001',
          type: 'add',
          origin: 'item',
          profile_id: 'hal',
        },
        ...{
          occurred_at: `${dateOf(12)} 11:00:00.000`,
          product_id: '9',
          product_handle: ODD,
          source: 'email',
        },
        payload: JSON.stringify({ productTitle: '<b>Odd</b> lamp' }),
      },
    ],
    format: 'JSONEachRow',
  });

  const headers = { cookie: await session() };
  const answerOf = async (panel: string, parameters: Record<string, string>, days = MONTH) => {
    const query = new URLSearchParams({ ...days, ...parameters });
    const answer = await fetch(`${url}/panels/${panel}?${query}`, { headers });
    return { status: answer.status, body: (await answer.json()) as Answer };
  };
  const rowsOf = async (panel: string, handle: string, days = MONTH) =>
    (await answerOf(panel, { handle }, days)).body.rows;
  const figuresOf = async (handle: string, days = MONTH) =>
    (await rowsOf('product', handle, days)).map((row) => row.slice(0, -1));
  const textsOf = async (panel: string, handle: string, from = MONTH.from, to = MONTH.to) =>
    (await rowsOf(panel, handle, { from, to })).map((row) => row.join(' '));

  t.test('visits, visitors, wishers and the wish rate of a product', async (t) => {
    t.same(await figuresOf('bag'), [['Green bag', 1, 5, 4, 3, 0.75]]);
    t.same(await figuresOf('shoe'), [['Red shoe', 1, 4, 2, 2, 1]], 'ann was a guest, and is one');
    t.same(await figuresOf('mug'), [['', 0, 1, 1, 0, 0]]);
    t.same(await figuresOf(ODD), [['<b>Odd</b> lamp', 1, 2, 2, 1, 0.5]]);
    t.same(await figuresOf('none'), [['', 0, 0, 0, 0, null]]);
    const first = { from: dateOf(2), to: dateOf(2) };
    t.same(await figuresOf('shoe', first), [['Red shoe', 1, 2, 2, 0, 0]], 'of one day');
  });

  t.test('visits, visitors and wishes of a product by day', async (t) => {
    const shoe = [`${dateOf(2)} 2 2 0`, `${dateOf(3)} 1 1 1`, `${dateOf(4)} 1 1 1`, `${dateOf(5)} 0 0 1`];
    t.same(await textsOf('product_days', 'shoe'), shoe);
    const before = [`${dateOf(0)} 0 0 1`];
    const bag = [`${dateOf(6)} 1 1 0`, `${dateOf(8)} 0 0 1`, `${dateOf(9)} 1 1 1`, `${dateOf(10)} 1 1 0`];
    t.same(await textsOf('product_days', 'bag', dateOf(6), dateOf(11)), [...before, ...bag]);
  });

  t.test(
    'a panel shows where wishes for a product were made, and on which devices it was visited',
    async (t) => {
      t.same(await textsOf('product_sources', 'shoe'), ['pdp 1 1 1', 'pdpSmartSave 1 0 0']);
      t.same(await textsOf('product_sources', ODD), ['email 1 0 0']);
      t.same(await textsOf('product_sources', 'mug'), []);
      t.same(await textsOf('product_devices', 'shoe'), ['desktop 2', 'phone 2']);
    },
  );

  t.test('carts, orders and revenue of a product, among those of all', async (t) => {
    const all = { EUR: 102.5 };
    t.same(await rowsOf('product_orders', 'shoe'), [[1, 1, 1, 1, 2, { EUR: 82.5 }, all]]);
    t.same(await rowsOf('product_orders', 'hat'), [[0, 1, 1, 1, 1, { EUR: 20 }, all]]);
    t.same(await rowsOf('product_orders', 'bag'), [[0, 1, 0, 1, 0, {}, all]], 'a test order is none');
    const later = { from: dateOf(7), to: dateOf(41) };
    const currencies = [{ USD: 100 }, { EUR: 102.5, USD: 100 }];
    t.same(await rowsOf('product_orders', 'bag', later), [[0, 0, 1, 2, 1, ...currencies]]);
  });

  t.test('price and stock of a product change on the days of the wishes that state them', async (t) => {
    const told = [
      `${dateOf(21)} 31 80 USD true`,
      `${dateOf(8)} 31 100 USD false`,
      `${dateOf(0)} 31 90 EUR true`,
    ];
    // The same once more, on day 9, is no row.
    t.same(await textsOf('product_prices', 'bag', dateOf(0)), told);
    t.same(await rowsOf('product_prices', ODD), [], 'a wish that told neither');
  });

  t.test('the search finds products of the chosen days by title and by handle', async (t) => {
    const found = async (text: string, days = MONTH) =>
      (await answerOf('search', { text }, days)).body.rows.map(([handle]) => handle);
    t.same(await found('GREEN'), ['bag']);
    t.same(await found('ho'), ['shoe']);
    t.same(await found('mug'), ['mug'], 'without a title');
    t.same(await found('odd</b>'), [ODD]);
    t.same(await found("o'x\\"), [ODD]);
    t.same(await found('%'), []);
    t.same(await found('bag', { from: dateOf(8), to: dateOf(8) }), ['bag'], 'it was wished for');
    t.same(await found('bag', { from: dateOf(3), to: dateOf(3) }), []);
    t.same((await answerOf('search', { text: 'shoe' })).body.rows, [['shoe', 'Red shoe', 4]]);
  });

  t.test('the statement under a panel has the handle in it, and answers the same', async (t) => {
    for (const { name, parameters = [] } of PRODUCT_PANELS) {
      const { body } = await answerOf(name, Object.fromEntries(parameters.map((one) => [one, ODD])));
      const again = await client.query({ query: body.sql, format: 'JSONCompactEachRow' });
      const rows = (await again.json()) as unknown[][];
      t.same(rows, body.rows, name);
      t.ok(rows.length > 0 || name === 'product_prices', name);
    }
  });

  t.test('a panel of a product without a handle is 400', async (t) => {
    for (const handle of ['', 'x'.repeat(256), '😀'.repeat(256)])
      t.equal((await answerOf('product', { handle })).status, 400);
    for (const handle of ['x'.repeat(255), '😀'.repeat(255)])
      t.equal((await answerOf('product', { handle })).status, 200);
    t.equal((await answerOf('product', {})).status, 400);
  });
}

const textOf = (page: Page, selector: string) => page.locator(selector).allTextContents();

export async function productPage(t: Test, { url, browser }: PageFixtures): Promise<void> {
  const { page, said } = await newPage(t, browser, url);
  const open = async (path: string) => {
    await page.goto(url + path);
    await page.waitForSelector(DRAWN);
  };
  const arriveAt = async (handle: string) => {
    await page.waitForURL(
      ({ pathname, searchParams }) => pathname === '/product' && searchParams.get('handle') === handle,
    );
    await page.waitForSelector(DRAWN);
  };
  const pathOf = (handle: string) => `/product?${new URLSearchParams({ handle, ...MONTH })}`;
  const type = async (text: string) => {
    await page.getByRole('combobox').fill(text);
    await page.waitForSelector('#suggestions:not([hidden])');
  };

  await t.test(
    "a product's page shows visits, wishes, carts and orders, and their share of all",
    async (t) => {
      await page.goto(url + pathOf('shoe'));
      await page.waitForSelector('#login:not([hidden])');
      t.notMatch(await page.locator('body').textContent(), /Red shoe/, 'without a login nothing of it');
      await page.getByLabel('Token').fill(TOKEN);
      await page.keyboard.press('Enter');
      await page.waitForSelector(DRAWN);
      t.equal(await page.title(), 'Red shoe – wishmeter');
      t.notOk(await page.locator('#product-unseen').isVisible());
      t.same(await textOf(page, '[data-panel="product"] .value'), ['4', '2', '2', '100.0%']);
      t.same(await textOf(page, '[data-panel="product_sources"] .name'), ['Product page', 'Smart Save']);
      t.same((await textOf(page, '[data-panel="product_devices"] .name')).toSorted(), ['Desktop', 'Phone']);
      t.same(await textOf(page, '[data-panel="product_orders"] dd'), [
        '1 100.0% of all 1',
        '1 100.0% of all 1',
        '2',
        '€82.50 80.5% of all',
      ]);
      const prices = [dateOf(5), '€60.00', 'no', dateOf(3), '€50.00', 'yes'];
      t.same(await textOf(page, '[data-panel="product_prices"] td'), prices);
      t.equal(await page.locator('[data-chart] canvas').count(), 3);
      const labelOf = (chart: string) =>
        page.locator(`[data-chart="${chart}"] [aria-label]`).first().getAttribute('aria-label');
      const sums = '4 in this time, 0 in the time before; the highest day has 2';
      t.match(await labelOf('visits'), `Visits by day: ${sums}`);
      t.equal(await labelOf('visitors'), 'Visitors by day: the highest day has 2.', 'no sum');
    },
  );

  await t.test('a product in a table leads to its page, of the same days, and back', async (t) => {
    await open(`/?${RANGE}`);
    await page.getByRole('link', { name: 'Green bag' }).first().click();
    await arriveAt('bag');
    t.equal(new URL(page.url()).searchParams.get('from'), MONTH.from, 'of the same days');
    await page.goBack();
    await page.goForward();
    await page.waitForSelector(DRAWN);
    t.equal(await page.locator('#product-name').textContent(), 'Green bag');
    const overview = await page.getByRole('link', { name: 'Overview' }).getAttribute('href');
    t.same(new URL(overview ?? '', page.url()).search, `?${RANGE}`, 'it leads back to the same days');
  });

  await t.test('the search finds a product by title or handle, with the keyboard alone', async (t) => {
    await type('E h');
    t.same(await textOf(page, '#suggestions a > span'), ['Blue hat']);
    await type('a');
    await page.locator('[role="option"]', { hasText: 'Green bag' }).waitFor();
    const names = await textOf(page, '#suggestions a > span');
    t.same(names.slice(0, 2), ['Blue hat', 'Green bag'], 'the most visited first');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    t.equal(await page.locator('[role="option"][aria-selected="true"] span').textContent(), 'Green bag');
    t.equal(await page.getByRole('combobox').getAttribute('aria-activedescendant'), 'suggestion-1');
    await page.keyboard.press('Escape');
    t.notOk(await page.locator('#suggestions').isVisible());
    await type('nothing like it');
    t.match(await page.locator('#suggestions').textContent(), 'No product of these days');
    await type('mug');
    await page.keyboard.press('Enter');
    await arriveAt('mug');
    t.equal(await page.locator('#product-name').textContent(), 'mug', 'without a title');
    await type('Green');
    await page.locator('#suggestions a', { hasText: 'Green bag' }).click();
    await arriveAt('bag');
  });

  await t.test('nothing of a handle or a title becomes HTML', async (t) => {
    await type("o'x\\");
    t.same(await textOf(page, '#suggestions a > span'), ['<b>Odd</b> lamp']);
    await page.keyboard.press('Enter');
    await arriveAt(ODD);
    t.equal(await page.locator('#product-name').textContent(), '<b>Odd</b> lamp');
    t.equal(await page.locator('#product-handle').textContent(), ODD);
    t.same(await textOf(page, '[data-panel="product"] .value'), ['2', '2', '1', '50.0%']);
    t.equal(await page.locator('main img, #search img, h2 b, #suggestions b').count(), 0);
    t.equal(await page.title(), '<b>Odd</b> lamp – wishmeter');
  });

  await t.test('the page of a product without visits says so', async (t) => {
    await open(`/product?${new URLSearchParams({ handle: 'bag', from: dateOf(8), to: dateOf(8) })}`);
    await page.getByText('Nobody looked at this product on these days.', { exact: true }).waitFor();
    t.same(await textOf(page, '[data-panel="product"] .value'), ['0', '0', '1', '–']);
    await open(pathOf('<i>none</i>'));
    t.match(await page.locator('#product-unseen').textContent(), 'no wishlist ever had one');
    t.equal(await page.locator('#product-name').textContent(), '<i>none</i>');
    t.equal(await page.locator('[data-panel]:visible').count(), 0);
    // Before the login there is one of each panel.
    const others = said.filter((text) => !/status of 401/.test(text));
    t.same(others, []);
    await page.goto(`${url}/product?${RANGE}`);
    await page.locator('#trouble', { hasText: 'handle' }).waitFor();
  });
}

// The dashboard's overview in a browser: its numbers are those of SQL, it is used by keyboard, and what it shows is in its address.

import type { Test } from 'tap';
import { dateOf } from '../../clickhouse/small-world.js';
import { select } from '../../harness/clickhouse.js';
import { cells, DRAWN, newPage, openDrawn, type PageFixtures, show, tile } from './browser.js';
import { MONTH, RANGE, TOKEN } from './fixtures.js';

export async function overview(t: Test, { url, client, browser }: PageFixtures): Promise<void> {
  const { page, foreign, said } = await openDrawn(t, browser, url);
  const ask = <Row>(query: string) => select<Row>(client, query);
  const inMonth = `occurred_at >= '${MONTH.from}' AND occurred_at < '${MONTH.to}'::Date + 1`;

  await t.test(
    'the overview has the figures of the SQL views, and the token leaves the address',
    async (t) => {
      for (const [key, query] of [
        ['visits', `SELECT count() AS n FROM visits WHERE ${inMonth}`],
        ['wishes', `SELECT count() AS n FROM events WHERE type = 'add' AND ${inMonth}`],
        ['removals', `SELECT count() AS n FROM events WHERE type = 'remove' AND ${inMonth}`],
        ['carts', `SELECT count() AS n FROM events WHERE type = 'moveToCart' AND ${inMonth}`],
        ['orders', `SELECT uniqExact(order_id) AS n FROM purchases WHERE NOT test AND ${inMonth}`],
      ] as const)
        t.equal(await tile(page, key), String((await ask<{ n: string }>(query))[0]?.n), key);
      t.equal(await tile(page, 'revenue'), '€102.50', 'two shoes at 45 less 7.50, and a hat at 20');
      t.same(await page.locator('[data-part="funnel"] strong').allTextContents(), ['7', '6', '1', '1']);
      t.match(await page.locator('[data-part="funnel"] .body').textContent(), '€82.50');
      t.same(await cells(page, 'products', 2), ['3', '2', '1']);
      t.match((await cells(page, 'products', 1))[0], /^Green bag/);
      t.same(await cells(page, 'stock', 2), ['1']);
      const sources = await page.locator('[data-part="sources"] .name').allTextContents();
      const made = ['Collection page', 'E-mail', 'Product page', 'Smart Save'];
      t.same(sources.toSorted(), made, 'and not that of a repeated wish, which made none');
      t.same(foreign, []);
      t.same(said, []);
      t.equal(new URL(page.url()).hash, '');
      t.equal(await page.evaluate('document.cookie'), '', 'no script sees the cookie');
      t.equal(await page.locator('#chart canvas').count(), 1);
    },
  );

  await t.test('today is marked as incomplete, and left out of comparisons', async (t) => {
    const [from, to] = [dateOf(4), dateOf(6)];
    const { page, open } = await newPage(t, browser, url);
    await page.clock.setFixedTime(new Date(`${to}T18:00:00Z`));
    await open(`from=${from}&to=${to}`);
    await page.waitForSelector(DRAWN);
    const visits = async (first: number, last: number) => {
      const days = `toDate(occurred_at) BETWEEN '${dateOf(first)}' AND '${dateOf(last)}'`;
      return Number((await ask<{ n: string }>(`SELECT count() AS n FROM visits WHERE ${days}`))[0]?.n);
    };
    t.equal(await tile(page, 'visits'), String(await visits(4, 6)), 'what is shown has today');
    const rate = (await visits(4, 5)) / (await visits(2, 3)) - 1;
    t.not(rate, (await visits(4, 6)) / (await visits(1, 3)) - 1);
    const change = page.locator('[data-figure="visits"] .up, [data-figure="visits"] .down');
    t.match(await change.textContent(), `${(Math.abs(rate) * 100).toFixed(1)}%`);
    const compared = `${from} to ${dateOf(5)} is compared with ${dateOf(2)} to ${dateOf(3)}`;
    t.equal(
      await page.locator('#compared').textContent(),
      `${from} to ${to}; today is not over: ${compared}`,
    );
    t.match(await page.locator('#chart .legend').textContent(), 'Today, so far');
    await page.goto(`${url}/?from=${to}&to=${to}`);
    await page.waitForSelector(DRAWN);
    t.match(await page.locator('[data-figure="visits"]').textContent(), 'today, so far');
  });

  await t.test('each panel is requested once, first those in sight, and shown when it arrives', async (t) => {
    const asked: string[] = [];
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { page, open } = await newPage(t, browser, url);
    page.on('request', (request) => asked.push(/panels\/(\w+)\?/.exec(request.url())?.[1] ?? ''));
    await page.route('**/panels/devices?*', async (route) => {
      await held;
      await route.continue();
    });
    await open();
    await page.waitForSelector('[data-panel="days"][aria-busy="false"]');
    const panels = await page
      .locator('[data-panel]')
      .evaluateAll((all) => all.map((one) => one.dataset.panel));
    const inOrder = () => asked.filter((name) => name !== '');
    t.equal(await tile(page, 'visits'), '16', 'while the last one has not come');
    t.equal(await page.locator('[data-panel="devices"]').getAttribute('aria-busy'), 'true');
    release();
    await page.waitForSelector(DRAWN);
    t.same(inOrder(), [...new Set(panels)], 'from the top to the bottom, for sections of one panel once');
  });

  await t.test('the chart names the figures of a day, and of the time before', async (t) => {
    const drawing = page.locator('#chart .u-over');
    const { width = 0 } = (await drawing.boundingBox()) ?? {};
    // The fifth of 31 days.
    const before = `${dateOf(-30)} to ${dateOf(0)}`;
    await drawing.hover({ position: { x: (width * 4) / 30, y: 50 } });
    t.same(await page.locator('#chart .legend .value').allTextContents(), ['6', '0']);
    t.equal(await page.locator('#chart .legend .day').textContent(), dateOf(5));
    await page.mouse.move(0, 0);
    t.equal(await page.locator('#chart .legend').textContent(), `Visits The time before, ${before} `);
    await page.locator('#chart .plot').focus();
    for (const key of ['Home', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowRight'])
      await page.keyboard.press(key);
    const read = await page.locator('#chart .plot').getAttribute('aria-valuetext');
    t.equal(read, `${dateOf(5)}: Visits 6, The time before, ${before} 0`);
  });

  await t.test('every panel shows its SQL and gives its rows', async (t) => {
    const panels = await page.locator('[data-panel]').all();
    t.equal(panels.length, 10);
    for (const panel of panels) {
      await panel.locator('summary').click();
      const sql = (await panel.locator('.tools pre').textContent()) ?? '';
      t.match(sql, /^SELECT\s/);
      await ask(sql);
      const href = await panel.locator('a[download]').getAttribute('href');
      t.match(href, /^panels\/\w+\.csv\?from=/);
    }
    const download = page.waitForEvent('download');
    await page.locator('[data-panel="products"] a[download]').click();
    t.equal((await download).suggestedFilename(), `wishmeter-products-${MONTH.from}-${MONTH.to}.csv`);
  });

  await t.test("other days are another address, and the browser's way back works", async (t) => {
    await page.locator('input[name="to"]').fill(dateOf(3));
    await show(page).click();
    await page.waitForURL((address) => address.searchParams.get('to') === dateOf(3));
    await page.locator('[data-figure="visits"] .value', { hasText: /^3$/ }).waitFor();
    await page.goBack();
    await page.locator('[data-figure="visits"] .value', { hasText: /^16$/ }).waitFor();
    t.equal(await page.locator('input[name="to"]').inputValue(), MONTH.to);
  });

  await t.test("a table's order is in the address: reload and back keep it and ask no panel", async (t) => {
    await page.goto(`${url}/?${RANGE}&sort.products=nonsense`);
    await page.waitForSelector(DRAWN);
    t.same(await cells(page, 'products', 2), ['3', '2', '1'], 'as the rows came');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const heading = page.locator('[data-panel="products"] th button', { hasText: 'Visitors' });
    for (const order of ['-visitors', 'visitors']) {
      await heading.click();
      await page.waitForURL(({ searchParams }) => searchParams.get('sort.products') === order);
    }
    t.same(await cells(page, 'products', 3), ['2', '2', '4']);
    await page.goBack();
    t.same(await cells(page, 'products', 3), ['4', '2', '2']);
    const sorted = page.locator('[data-panel="products"] th[aria-sort="descending"]');
    t.equal(await sorted.textContent(), 'Visitors');
    await page.goForward();
    t.same(asked, []);
    await page.reload();
    await page.waitForSelector(DRAWN);
    t.same(await cells(page, 'products', 3), ['2', '2', '4']);
    t.equal(await page.locator('input[name="to"]').inputValue(), MONTH.to);
  });

  await t.test('the page asks for a token, and refuses a wrong one', async (t) => {
    const { page } = await newPage(t, browser, url);
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
    t.same(await page.context().cookies(), []);
  });
}

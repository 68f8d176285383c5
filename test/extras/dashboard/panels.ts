// Figures of panels, counted by hand from the rows of planted.ts, over HTTP, as CSV and in a browser.

import type { Test } from 'tap';
import { cells, openDrawn, type PageFixtures } from './browser.js';
import type { Fixtures } from './fixtures.js';
import { JUNE, plantJune } from './planted.js';

const QUERY = new URLSearchParams(JUNE).toString();
const PHONE = { viewport: { width: 390, height: 844 } };

export async function panelsOverHttp(t: Test, { url, client, session }: Fixtures): Promise<void> {
  await plantJune(client);
  const headers = { cookie: await session() };
  const rowsOf = async (panel: string, more = '') => {
    const answer = await fetch(`${url}/panels/${panel}?${QUERY}${more}`, { headers });
    const { names, rows } = (await answer.json()) as { names: string[]; rows: unknown[][] };
    return rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i] as string, value])));
  };
  const csvOf = async (panel: string, more = '') =>
    (await (await fetch(`${url}/panels/${panel}.csv?${QUERY}${more}`, { headers })).text()).split('\r\n');

  t.test(
    'a product wished in several variants and currencies is one row, with its prices side by side',
    async (t) => {
      const [lamp, ...others] = await rowsOf('stock');
      t.same(others, []);
      t.match(lamp, { product_id: '101', out_of_stock_when_wished: 3, dearer_when_wished: 2, all_rows: 1 });
      t.match(lamp, { variants: 2, variants_in_stock: 1, in_stock_now: true }, 'the large one is sold out');
      t.same(lamp?.['prices_now'], { EUR: 36, USD: 50 }, 'of the cheaper variant');
      t.same(lamp?.['highest_prices_now'], { EUR: 44, USD: 50 });
      const [names = '', row = ''] = await csvOf('stock');
      t.match(names, 'out_of_stock_when_wished,in_stock_now');
      t.match(row, /^101,lamp,lamp,3,true,1,2,2,"\{""EUR"":36,""USD"":50\}"/);
    },
  );
}

export async function panelsInBrowser(t: Test, { url, browser }: PageFixtures): Promise<void> {
  const { page, said } = await openDrawn(t, browser, url, PHONE, QUERY);

  await t.test(
    'a narrow table has two columns beside the name, fits, and shows all when asked',
    async (t) => {
      for (const panel of ['products', 'stock']) {
        const table = page.locator(`[data-panel="${panel}"]`);
        t.equal(await table.locator('th:visible').count(), 3, panel);
        const scroll = table.locator('.scroll');
        t.equal(await scroll.evaluate((one) => one.scrollWidth - one.clientWidth), 0, `${panel} fits`);
        const all = await table.locator('th').count();
        await table.getByRole('button', { name: `Show all ${all} columns` }).click();
        t.equal(await table.locator('th:visible').count(), all, panel);
        await table.getByRole('button', { name: 'Show the main columns' }).click();
      }
    },
  );

  await t.test('a table of stock says which variants are there, and all prices', async (t) => {
    t.same(await cells(page, 'stock', 3), ['1 of 2 variants']);
    t.same(await cells(page, 'stock', 5), ['€36.00 – €44.00, $50.00']);
  });

  await t.test('an arrow stands for percent alone: a difference of wishers has a sign', async (t) => {
    // The last 7 days have no wishes.
    for (const text of await cells(page, 'products', 6)) t.match(text, /^(0|[+−]\d+)$/);
    const { page: earlier } = await openDrawn(t, browser, url, PHONE, 'from=2024-06-01&to=2024-06-08');
    t.same(await cells(earlier, 'products', 6), ['+3', '+4'], 'Ida is of the 7 before');
  });

  t.same(said, []);
}

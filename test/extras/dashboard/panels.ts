// Figures of panels, counted by hand from the rows of planted.ts, over HTTP, as CSV and in a browser.

import type { Test } from 'tap';
import { cells, DRAWN, openDrawn, type PageFixtures, section } from './browser.js';
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
      const [lamp, ...others] = (await rowsOf('open'))
        .filter(({ out_of_stock_when_wished: n }) => Number(n) > 0)
        .slice(1);
      t.same(others, []);
      t.match(lamp, { product_id: '101', out_of_stock_when_wished: 3, dearer_when_wished: 2, all_told: 1 });
      t.match(lamp, { variants: 2, variants_in_stock: 1, in_stock_now: true }, 'the large one is sold out');
      t.same(lamp?.['prices_now'], { EUR: 36, USD: 50 }, 'of the cheaper variant');
      t.same(lamp?.['highest_prices_now'], { EUR: 44, USD: 50 });
    },
  );

  t.test('open wishes: their visitors, and their worth at the latest price, by hand', async (t) => {
    const all = { wishers: 6, customers: 2, guests: 4, items: 7, value: { EUR: 160, USD: 70, JPY: 3000 } };
    const lamp = { wishers: 3, customers: 2, guests: 1, items: 4, value: { EUR: 160, USD: 50 } };
    const vase = { wishers: 3, customers: 0, guests: 3, items: 3, value: { JPY: 3000, USD: 20 } };
    const rows = (await rowsOf('open')).map(
      ({ part, product_handle, wishers, customers, guests, items, value }) => [
        `${part} ${product_handle}`,
        { wishers, customers, guests, items, value },
      ],
    );
    t.same(Object.fromEntries(rows), { 'all ': all, 'product lamp': lamp, 'product vase': vase });
    const [names, first, second] = await csvOf('open');
    t.match(
      names,
      /^\ufeff?part,product_id,product_handle,product_title,wishers,customers,guests,items,value,/,
    );
    t.match(first, /^all,,,,6,2,4,7,"\{""EUR"":160,""JPY"":3000,""USD"":70\}"/);
    t.match(second, /^product,101,lamp,lamp,3,2,1,4,"\{""EUR"":160,""USD"":50\}"/);
    const earlier = await fetch(`${url}/panels/open?from=2024-06-01&to=2024-06-02`, { headers });
    const [whole] = ((await earlier.json()) as { rows: unknown[][] }).rows;
    t.same(whole?.slice(4, 9), [1, 1, 0, 1, { EUR: 72 }], 'Ada wished for two on day 2, now 36 each');
  });

  t.test('a picture comes from IMAGE_HOSTS, or is left out', async (t) => {
    for (const panel of ['products', 'open']) {
      const rows = await rowsOf(panel);
      const images = Object.fromEntries(rows.map((row) => [row['product_handle'], row['image']]));
      t.match(images, { lamp: 'https://shop.example/lamp.jpg', vase: null }, panel);
    }
    const [whole] = await rowsOf('product', '&handle=lamp');
    t.equal(whole?.['image'], 'https://shop.example/lamp.jpg');
    const page = await fetch(url);
    t.match(
      page.headers.get('content-security-policy'),
      "; img-src 'self' data: https://shop.example https://*.cdn.example;",
    );
  });

  t.test('open wishes for a product by variant, each visitor once in the whole', async (t) => {
    const rows = await rowsOf('product_open', '&handle=lamp');
    t.match(rows, [
      { part: 'all', variant_id: '', wishers: 3, customers: 2, guests: 1, items: 4, in_stock_now: null },
      { part: 'variant', variant_id: '1011', wishers: 2, customers: 1, guests: 1, in_stock_now: true },
      { part: 'variant', variant_id: '1012', wishers: 2, customers: 2, guests: 0, in_stock_now: false },
    ]);
    t.same(
      rows.map(({ value }) => value),
      [{ EUR: 160, USD: 50 }, { EUR: 72, USD: 50 }, { EUR: 88 }],
    );
    const [, , csv] = await csvOf('product_open', '&handle=lamp');
    t.match(csv, /^variant,1011,2,1,1,2,"\{""EUR"":72,""USD"":50\}",true,/);
  });

  t.test('wishes by source: what was bought, and what was removed and not wished again', async (t) => {
    const rows = await rowsOf('wishes');
    const figures = rows.map(({ part, source, wishes, bought, removed }) => [
      `${part} ${source}`,
      [wishes, bought, removed],
    ]);
    t.same(Object.fromEntries(figures), {
      // Ada wished for two variants of one product. Eve removed the vase and wished again; Dan undid what Smart Save had saved.
      'all ': [10, 2, 1],
      'source pdp': [5, 0, 0],
      'source pdpSmartSave': [3, 1, 1],
      'source wishlist': [2, 1, 0],
    });
    t.match(rows[0], { visits: 0, visitors: 0, wishers: 9, carters: 1, buyers: 2, revenue: { USD: 40 } });
    const [names, all] = await csvOf('wishes');
    t.match(names, 'part,source,visits,visitors,wishes,wishers,carters,buyers,carted,bought,removed,revenue');
    t.equal(all, 'all,,0,0,10,9,1,2,1,2,1,"{""USD"":40}"');
  });

  t.test('the panel of wishes has the figures of shop_funnel and adds_by_source', async (t) => {
    const days = "(from = '2025-03-01', to = '2025-04-10')";
    const answer = await fetch(`${url}/panels/wishes?from=2025-03-01&to=2025-04-10`, { headers });
    const [all, ...sources] = ((await answer.json()) as { rows: unknown[][] }).rows;
    const asked = async (query: string) =>
      (await client.query({ query, format: 'JSONCompactEachRow' })).json() as Promise<unknown[][]>;
    const [, , visits, visitors, , wishers, carters, buyers, , , , revenue] = all ?? [];
    const [funnel] = await asked(`SELECT * FROM shop_funnel${days}`);
    t.same([visits, visitors, wishers, carters, buyers, revenue], funnel);
    const expected = await asked(
      `SELECT source, wishes, carted, bought, revenue FROM adds_by_source${days} ORDER BY wishes DESC, source`,
    );
    t.same(
      sources.map((row) => [row[1], row[4], row[8], row[9], row[11]]),
      expected,
    );
  });

  t.test('shared lists: links and shares, by channel, and what people opened', async (t) => {
    const rows = await rowsOf('shares');
    t.same(
      rows.map((row) => Object.values(row).join(' ')),
      ['all  4 3 4 3', 'channel Link 3 3 0 0', 'channel Email 1 1 0 0'],
    );
    const [names, all] = await csvOf('shares');
    t.match(names, 'part,channel,shares,share_links,opens,opened_links');
    t.equal(all, 'all,,4,3,4,3', 'with a link of May');
  });

  t.test('a panel shows removals beside adds by day', async (t) => {
    const days = (await rowsOf('days')).filter(({ removals }) => Number(removals) > 0);
    t.same(
      days.map(({ day, wishes, removals }) => [day, wishes, removals]),
      [
        ['2024-06-06', 2, 1],
        ['2024-06-07', 1, 1],
      ],
    );
  });

  t.test(
    'with compare=year a panel by day has the same dates a year ago, and not the days between',
    async (t) => {
      const days = (from: string, to: string) => `${url}/panels/days?compare=year&from=${from}&to=${to}`;
      const daysOf = async (from: string, to: string) => {
        const answer = await fetch(days(from, to), { headers });
        const { rows } = (await answer.json()) as { rows: unknown[][] };
        return rows.map(([day, , wishes]) => `${day} ${wishes}`).sort();
      };
      t.same(await daysOf('2025-06-01', '2025-06-04'), ['2024-06-02 1', '2024-06-03 1', '2024-06-04 1']);
      t.same(await daysOf('2025-06-06', '2025-06-06'), ['2024-06-06 2']);
      const long = await daysOf('2024-05-01', '2025-06-04');
      t.same(long, [...new Set(long)], 'a time of more than a year has each day once');
      t.equal(long[0], '2024-05-30 1');
      await client.insert({
        table: 'events_stored',
        values: ['2023-02-27', '2023-02-28', '2025-06-05'].map((day, i) => ({
          ...{ event_id: `00000000-0000-7000-8000-00000000002${i}`, type: 'add', profile_id: '7.sleap' },
          ...{ origin: 'item', occurred_at: `${day} 10:00:00.000`, product_id: '104' },
        })),
        format: 'JSONEachRow',
      });
      t.same(await daysOf('2024-02-28', '2024-02-29'), ['2023-02-28 1'], '28 February for the 29th');
      t.same(await daysOf('2024-02-29', '2024-02-29'), ['2023-02-28 1']);
    },
  );
}

export async function panelsInBrowser(t: Test, { url, browser }: PageFixtures): Promise<void> {
  const { page, said: all } = await openDrawn(t, browser, url, PHONE, QUERY);

  await t.test(
    'a narrow table has two columns beside the name, fits, and shows all when asked',
    async (t) => {
      for (const panel of ['products', 'open', 'stock']) {
        const table = section(page, panel);
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

  await t.test('a row has the picture of its product, and a link into the shop', async (t) => {
    const asked: string[] = [];
    await page.route('https://shop.example/**', (route) => {
      asked.push(route.request().url());
      const body = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>';
      return route.fulfill({ contentType: 'image/svg+xml', body });
    });
    await page.reload();
    await page.waitForSelector(DRAWN);
    const [lamp, vase] = ['lamp', 'vase'].map((name) =>
      section(page, 'open').locator('tr', { hasText: name }),
    );
    await lamp?.locator('img').scrollIntoViewIfNeeded();
    t.equal(await lamp?.locator('img').getAttribute('src'), 'https://shop.example/lamp.jpg');
    t.equal(await vase?.locator('img').count(), 0, 'not that of a stranger');
    const link = vase?.getByRole('link', { name: 'vase in the shop' });
    t.equal(await link?.getAttribute('href'), 'https://shop.example/products/vase');
    await page.waitForFunction(
      `[...document.images].some(({ complete, naturalWidth }) => complete && naturalWidth === 9)`,
    );
    t.same([...new Set(asked)], ['https://shop.example/lamp.jpg']);
  });

  await t.test('sections say the open wishes, what Smart Save undid, and what friends saved', async (t) => {
    const texts = async (part: string, what: string) => section(page, part).locator(what).allTextContents();
    const open = ['6', '7', '€160.00', '¥3,000', '$70.00'];
    t.same(await texts('open', '.tile .value'), open);
    t.match(await section(page, 'open').locator('.tile').first().textContent(), '2 customers, 4 guests');
    t.same(await cells(page, 'open', 6), ['€160.00, $50.00', '¥3,000, $20.00']);
    t.same(await texts('lists', '.tile .value'), ['3', '3', '2', '1']);
    const smart = section(page, 'sources').locator('li', { hasText: 'Smart Save' });
    t.match(await smart.textContent(), /3 30\.0%, 1 bought, 1 undone/);
    t.equal(await page.locator('[data-figure="removals"] .value').textContent(), '2');
  });

  await t.test('an arrow stands for percent only; a difference of visitors has a sign', async (t) => {
    // The last 7 days have no wishes.
    for (const text of await cells(page, 'products', 6)) t.match(text, /^(0|[+−]\d+)$/);
    const { page: earlier } = await openDrawn(t, browser, url, PHONE, 'from=2024-06-01&to=2024-06-08');
    t.same(await cells(earlier, 'products', 6), ['+3', '+4'], 'Ida is of the 7 before');
  });

  await t.test(
    'figures, chart and revenue are compared with the same time a year ago when chosen',
    async (t) => {
      await page.goto(`${url}/?from=2025-06-03&to=2025-06-12`);
      await page.waitForSelector(DRAWN);
      await page.getByRole('button', { name: 'The same time a year ago' }).click();
      await page.waitForURL(({ searchParams }) => searchParams.get('compare') === 'year');
      const then = '2024-06-03 to 2024-06-12';
      await page
        .locator('#compared', { hasText: `2025-06-03 to 2025-06-12, compared with ${then}` })
        .waitFor();
      const wishes = page.locator('[data-figure="wishes"]', { hasText: '▼ 90.9% less than a year ago' });
      await wishes.click(); // 1 of 11
      t.match(await page.locator('#chart .plot').getAttribute('aria-label'), '1 in this time, 11 a year ago');
      await page.goto(`${url}/?from=2024-06-03&to=2024-06-12&compare=year`);
      await page.waitForSelector(DRAWN);
      t.match(await page.locator('[data-figure="wishes"]').textContent(), 'None a year ago');
      t.match(await page.locator('[data-panel="revenue"] tbody').textContent(), 'None a year ago');
      t.match(await page.locator('#chart .legend').textContent(), 'A year ago, 2023-06-03 to 2023-06-12');
      await page.goto(`${url}/?from=2025-03-01&to=2025-03-31`);
      await page.waitForSelector(DRAWN);
      const links = page.getByRole('link', { name: 'Green bag' }).first();
      t.notMatch(await links.getAttribute('href'), /compare/);
      await page.getByRole('button', { name: 'The same time a year ago' }).click();
      await page.locator('#compared', { hasText: 'compared with 2024-03-01 to 2024-03-31' }).waitFor();
      t.match(
        await page.getByRole('link', { name: 'Green bag' }).first().getAttribute('href'),
        /compare=year/,
      );
      await page.goBack();
      await page.locator('#compared', { hasText: 'compared with 2025-01-29 to 2025-02-28' }).waitFor();
    },
  );

  const said = all.filter((text) => !/net::ERR/.test(text)); // pictures of a host that does not exist
  t.same(said, []);
}

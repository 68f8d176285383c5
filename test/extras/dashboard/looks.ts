// The dashboard's layout on a phone and at a desk: long titles and numbers, no data, and more values than a panel shows.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { dateOf } from '../../clickhouse/small-world.js';
import { cells, openDrawn, type PageFixtures, section } from './browser.js';
import { type Fixtures, MONTH, RANGE } from './fixtures.js';

const PHONE = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const;
const DESK = { viewport: { width: 1_440, height: 900 } };
const MUCH = [
  `INSERT INTO purchases_stored (order_id, line, version, occurred_at, updated_at, profile_id, product_id, variant_id, quantity,
    price, currency, amount)
  SELECT concat('much', toString(number)), '1', 1, toDateTime64('${dateOf(1)}', 3, 'UTC') + toIntervalHour(9 * number) AS at, at,
    concat('much', toString(number)), '1', '11', 1, 1234567.5, ['JPY', 'JPY', 'EUR', '', 'KWD'][1 + number % 5],
    123456789.5 * (1 + number % 5)
  FROM numbers(60)`,
  `INSERT INTO events_stored (event_id, type, origin, occurred_at, profile_id, product_id, variant_id, product_handle, source,
    price, currency, payload)
  SELECT generateUUIDv4(), 'add', 'item', toDateTime64('${dateOf(1)}', 3, 'UTC') + toIntervalHour(9 * number),
    concat('much', toString(number)), concat('much', toString(number % 14)), '11',
    concat('a-handle-that-goes-on-and-on-without-an-end-', toString(number % 14)), 'collection', 1, 'EUR',
    concat('{"productTitle":"Donaudampfschifffahrtselektrizitätenhauptbetriebswerk ', toString(number % 14), '"}')
  FROM numbers(60)`,
];
/** Texts that leave what holds them. @param box a selector of what holds them */
const leavingOf = (page: Page, box: string) =>
  page.evaluate<string[]>(`[...document.querySelectorAll('${box}')].flatMap((box) => {
    const room = box.getBoundingClientRect();
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    const leaving = [];
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
      // What scrolls may hold more than it shows.
      if (text.data.trim() === '' || text.parentElement.closest('.scroll, pre, [hidden]')) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      for (const { left, right, top, bottom } of range.getClientRects())
        if (left < room.left || right > room.right + 0.5 || top < room.top || bottom > room.bottom + 0.5) leaving.push(text.data);
    }
    return leaving;
  })`);
/** Beyond what a call may have arguments: some 120,000. */
const WORDS = 150_000;

export async function looks(t: Test, { url, client, browser }: PageFixtures): Promise<void> {
  for (const query of MUCH) await client.command({ query });
  const phone = (await openDrawn(t, browser, url, PHONE)).page;
  const desk = (await openDrawn(t, browser, url, DESK)).page;

  const places = { 'on a phone': [phone, PHONE], 'at a desk': [desk, DESK] } as const;
  for (const [name, [page, where]] of Object.entries(places))
    await t.test(`${name} no text leaves its tile or panel`, async (t) => {
      t.same(await leavingOf(page, '.tile'), []);
      t.same(await leavingOf(page, '.panel'), []);
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), where.viewport.width);
      const tops = await page
        .locator('#range fieldset button:visible')
        .evaluateAll((buttons) => buttons.map((button) => Math.round(button.getBoundingClientRect().top)));
      t.equal(new Set(tops).size, 1, 'the range is one row');
      const text = (await page.locator('body').textContent()) ?? '';
      t.notMatch(text, /\d{1,2}\/\d{1,2}\/\d{2,4}/, 'days are written in one way');
      t.equal(await page.locator('#range input[name]:not([type])').count(), 2);
    });

  await t.test('a long table shows its first ten rows whole, and all of them when asked to', async (t) => {
    const page = desk;
    t.equal((await cells(page, 'products', 1)).length, 10);
    const scroll = page.locator('[data-panel="products"] .scroll');
    const cut = await scroll.evaluate((element) => element.scrollHeight - element.clientHeight);
    t.equal(cut, 0, 'no row is cut');
    await page.locator('[data-panel="products"] .more', { hasText: 'Show all 18' }).click();
    t.equal((await cells(page, 'products', 1)).length, 18);
  });

  await t.test('more subscribers than visitors, as after an import, are shown without a share', async (t) => {
    const page = desk;
    const wished = page.locator('[data-part="funnel"] li', { hasText: 'Wished' });
    t.equal(await wished.locator('.share').textContent(), '');
    for (const rate of await cells(page, 'products', 4)) t.match(rate, /^(–|100\.0%|\d\d?\.\d%)$/);
  });

  await t.test('revenue is shown for each currency, and for orders without one', async (t) => {
    const page = desk;
    const name = await page.locator('[data-figure="revenue"] .name').textContent();
    t.equal(name, 'Revenue in JPY (also 3 others)');
    t.match(await page.locator('[data-figure="revenue"] .value').textContent(), /^¥[\d,]+$/);
    t.same((await cells(page, 'revenue', 1)).toSorted(), ['EUR', 'JPY', 'KWD', 'No currency']);
    const row = page.locator('[data-panel="revenue"] tr', { hasText: 'No currency' });
    t.match(await row.locator('td').nth(2).textContent(), /^[\d,]+\.\d\d$/);
  });

  await t.test('a single day is shown as a bar beside the day before', async (t) => {
    const day = dateOf(5);
    const { page } = await openDrawn(t, browser, url, PHONE, `from=${day}&to=${day}`);
    t.equal(await page.locator('#chart canvas').count(), 0);
    t.same(await page.locator('#chart .name').allTextContents(), [day, dateOf(4)]);
    t.same(await page.locator('#chart strong').allTextContents(), ['6', '1']);
    t.same(await leavingOf(page, '.panel'), []);
  });

  await t.test('days without figures link to the last ones, and an empty shop says what to do', async (t) => {
    const { page, said } = await openDrawn(t, browser, url, PHONE, 'from=2024-01-01&to=2024-01-31');
    t.match(await page.locator('#none-then').textContent(), '2024-01-01 to 2024-01-31');
    await page.locator('#to-last-days').click();
    const notice = page.locator('#no-figures');
    await notice.waitFor();
    const tag =
      '<script defer src="http://127.0.0.1:9123/api/beacon.js" data-product-handle="red-shoe"></script>';
    t.match(await notice.textContent(), tag, 'with the real address');
    t.notMatch(await notice.textContent(), /curl|POST|localhost:8080/);
    t.equal(await page.locator('.panel:visible').count(), 0, 'and no panels without a row');
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
    t.same(said, []);
    t.notOk(await desk.locator('.notice').first().isVisible(), 'days with figures have no notice');
  });
}

export async function shares(t: Test, { url, client, session }: Fixtures): Promise<void> {
  const headers = { cookie: await session() };
  /** Word and number of each row but that of the whole shop. */
  async function rowsOf(panel: string): Promise<[word: unknown, n: number][]> {
    const answer = await fetch(`${url}/panels/${panel}?${RANGE}&handle=shoe`, { headers });
    const { names, rows } = (await answer.json()) as { names: string[]; rows: unknown[][] };
    const [word, n] = [/^(device|source|channel)$/, /^(visits|wishes|shares)$/].map((name) =>
      names.findLastIndex((one) => name.test(one)),
    ) as [number, number];
    const isPart = (row: unknown[]) => names[0] !== 'part' || row[0] !== 'all';
    return rows.filter(isPart).map((row) => [row[word], Number(row[n])]);
  }
  async function total(panel: string): Promise<number> {
    return (await rowsOf(panel)).reduce((sum, [, n]) => sum + n, 0);
  }
  t.test('a panel of shares has at most 20 rows, the last one for all others', async (t) => {
    const sent = {
      devices: WORDS,
      product_devices: WORDS,
      wishes: 1_000,
      product_sources: 1_000,
      shares: 1_000,
    };
    const before = new Map<string, number>();
    for (const panel of Object.keys(sent)) before.set(panel, await total(panel));
    await client.command({
      query: `INSERT INTO visits_stored (occurred_at, stream, entry, line, profile_id, product_handle, device)
      SELECT toDateTime64('${MONTH.from} 12:00:00', 3, 'UTC'), 7, number, 0, toString(number % 10), 'shoe', concat('device', number)
      FROM numbers(${WORDS})`,
    });
    await client.command({
      query: `INSERT INTO events_stored (event_id, type, occurred_at, profile_id, origin, product_id, product_handle, source, channel)
      SELECT generateUUIDv4(), if(number % 2 = 0, 'add', 'share'), toDateTime64('${MONTH.from} 12:00:00', 3, 'UTC'),
        concat('w', toString(number)), 'event', if(number % 2 = 0, '1', ''), if(number % 2 = 0, 'shoe', ''),
        concat('source', number), concat('channel', number)
      FROM numbers(2000)`,
    });
    for (const [panel, count] of Object.entries(sent)) {
      const rows = await rowsOf(panel);
      t.equal(rows.length, 20, panel);
      t.equal(
        rows.findIndex(([word]) => word === null),
        19,
        panel,
      );
      t.equal(await total(panel), (before.get(panel) as number) + count, `${panel}: nothing is lost`);
    }
  });
}

export async function allOthers(t: Test, { url, browser }: PageFixtures): Promise<void> {
  const { page, said } = await openDrawn(t, browser, url);
  t.same(said, []);
  for (const panel of ['devices', 'sources', 'channels']) {
    const names = section(page, panel).locator('.name');
    t.ok((await names.count()) <= 20, panel);
    t.equal(await names.filter({ hasText: 'All others' }).count(), 1, panel);
  }
}

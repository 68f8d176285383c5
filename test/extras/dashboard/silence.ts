// While ClickHouse hangs, is away or refuses: what is shown is greyed with its time, and recovers by itself.

import { createServer, type ServerResponse } from 'node:http';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { asDashboard } from '../../../src/extras/embedded/clickhouse/users.js';
import { connectToClickHouse } from '../../harness/clickhouse.js';
import { listen } from '../../harness/listen.js';
import { startProxy } from '../../harness/proxy.js';
import { until } from '../../harness/until.js';
import { DRAWN, newPage, type PageFixtures, show, tile } from './browser.js';
import { MONTH, openDashboard, RANGE } from './fixtures.js';

/** Longer than a panel of these tests may take, shorter than the client's own timeout. */
const MOST_MS = 40_000;

export async function clickhouseThatHangs(t: Test): Promise<void> {
  const hanging = {
    'does not begin its answer': () => {},
    'does not end its answer': (response: ServerResponse) => {
      response.writeHead(200);
      response.write('["day","visits"]\n');
      // Each row puts the client's timeout off.
      const rows = setInterval(() => response.write('["2025-03-01","1"]\n'), 50);
      response.once('close', () => clearInterval(rows));
    },
  };
  for (const [what, answer] of Object.entries(hanging))
    await t.test(`a ClickHouse that ${what} holds no request`, async (t) => {
      let closed = 0;
      const server = createServer((request, response) => {
        request.socket.once('close', () => closed++);
        answer(response);
      });
      const clickhouse = connectToClickHouse(t, `http://127.0.0.1:${await listen(t, server)}`, 'shop');
      const { url, session } = await openDashboard(t, clickhouse, { panelMs: 200 });
      const answered = await fetch(`${url}/panels/days?${RANGE}`, {
        headers: { cookie: await session() },
        signal: AbortSignal.timeout(MOST_MS),
      });
      t.equal(answered.status, 503);
      t.same(await answered.json(), { error: 'ClickHouse does not answer.', away: true });
      await until('nothing is left under way', () => closed === 1);
    });
}

export async function silence(t: Test, { browser, clickhouseUrl }: PageFixtures): Promise<void> {
  const proxy = await startProxy(t, clickhouseUrl);
  const through = new URL(asDashboard(clickhouseUrl));
  through.port = String(proxy.port);
  const { url } = await openDashboard(t, connectToClickHouse(t, through.href, 'shop'));
  const words = (page: Page) => page.locator('#silence-words').textContent();
  const silent = (page: Page) => page.locator('#silence:not([hidden])').waitFor();
  const { page, open } = await newPage(t, browser, url);
  await page.clock.install({ time: new Date('2025-04-02T14:05:10Z') });
  await open();
  await page.waitForSelector(DRAWN);

  const passUntil = (page: Page, selector: string) =>
    until(selector, async () => {
      await page.clock.fastForward(2_000);
      return page.locator(selector).isVisible();
    });
  const recovers = async (t: Test, of = page) => {
    await passUntil(of, DRAWN);
    t.notOk(await of.locator('#silence').isVisible(), 'it recovers by itself');
  };

  await t.test('a panel that ClickHouse refuses says so in its place, and the others stand', async (t) => {
    const refused = { error: 'ClickHouse refused this panel (code 241).', away: false };
    await page.route('**/panels/wishes?*', (route) => route.fulfill({ status: 503, json: refused }));
    await show(page).click();
    await page.locator('[data-part="funnel"] .refused', { hasText: refused.error }).waitFor();
    await page.waitForSelector(DRAWN);
    t.equal(await tile(page, 'visits'), '16');
    await page.unroute('**/panels/wishes?*');
    await show(page).click();
    await page.locator('[data-part="funnel"] strong').first().waitFor();
    await page.waitForSelector(DRAWN);
  });

  await t.test('a ClickHouse that is away is asked again until it is back', async (t) => {
    proxy.retarget('redis://127.0.0.1:1');
    proxy.dropAll();
    await show(page).click();
    await passUntil(page, '#silence');
    t.match(await words(page), /^Shown as of \d\d:\d\d; ClickHouse has not answered$/);
    t.equal(await tile(page, 'visits'), '16');
    t.notOk(await page.locator('#trouble').isVisible());
    proxy.retarget(clickhouseUrl);
    await recovers(t);
  });

  await t.test(
    'while ClickHouse hangs, old figures are grey, and after five seconds the page says so',
    async (t) => {
      const opacity = async () =>
        Number(
          await page.evaluate(
            `getComputedStyle(document.querySelector('[data-part="funnel"] .body')).opacity`,
          ),
        );
      t.equal(await opacity(), 1);
      proxy.freeze();
      await show(page).click();
      await page.clock.fastForward(2_000);
      t.notOk(await page.locator('#silence').isVisible(), 'most statements take less');
      await page.clock.fastForward(8_000);
      await silent(page);
      t.match(await words(page), /^Shown as of 14:0\d; ClickHouse has not answered$/);
      t.match(await page.locator('#silence').textContent(), /has not answered for 1\d s\.$/);
      t.equal(await tile(page, 'visits'), '16', 'what stood stands');
      await until('it is grey', async () => (await opacity()) < 0.6);

      await page.locator('input[name="to"]').fill('2025-03-20');
      await show(page).click();
      await page.clock.fastForward(2_000);
      t.match(await words(page), `Shown is ${MONTH.from} to ${MONTH.to}, as of 14:0`);
      proxy.thaw();
      await recovers(t);
      await page.locator('[data-figure="visits"] .value', { hasText: /^15$/ }).waitFor();
    },
  );

  await t.test('with nothing to show the page says so, and shows all when the answers come', async (t) => {
    proxy.freeze();
    const { page, open } = await newPage(t, browser, url);
    const asked = new Set<unknown>();
    page.on('request', (request) => {
      if (request.url().includes('/panels/')) asked.add(request);
    });
    page.on('requestfinished', (request) => asked.delete(request));
    page.on('requestfailed', (request) => asked.delete(request));
    await page.clock.install();
    await open();
    await passUntil(page, '#silence');
    t.equal(asked.size, 4, 'a browser has six connections, and a reload needs one');
    t.equal(await words(page), 'Nothing is shown yet; ClickHouse has not answered');
    await page.reload(); // without the token, which no log-in confirms then
    await passUntil(page, '#silence');
    t.ok(await page.getByRole('button', { name: 'Log out' }).isVisible());
    proxy.thaw();
    await recovers(t, page);
    t.equal(await tile(page, 'visits'), '16');
  });
}

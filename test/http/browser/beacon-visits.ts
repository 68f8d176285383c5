// What the beacon counts, in a real browser, on pages of another origin than the service's.

import { setTimeout as sleep } from 'node:timers/promises';
import { devices, type Page } from 'playwright-core';
import type { Test } from 'tap';
import {
  type BrowserFixtures,
  countOf,
  eventually,
  PUBLISHABLE,
  STORED,
  STUB,
  sessionOf,
  tag,
  VISIT_PATH,
  visit,
} from '../../harness/storefront.js';

export async function beaconVisits(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const count = (page: Page, handle: string) => page.evaluate(`wishmeter.count(${JSON.stringify(handle)})`);
  let pauses = 0;
  const open = async (t: Test, ...page: [url: string, end?: string]) =>
    (await visit(t, fixtures)).open(...page);

  await t.test('a view of a page is one visit; a reload is a second; another tab a third', async (t) => {
    const visitor = await visit(t, fixtures);
    const url = shop.show('/one', tag(service, 'one'));
    const page = await visitor.open(url);
    t.equal(await count(page, 'one'), 1, 'count() waits for the visit under way');
    const sessionId = await sessionOf(page);
    t.match(sessionId, /^\d+-\d+-\d+-\d+$/);
    t.equal(await page.evaluate(STORED), sessionId);
    t.match((await visitor.sent())[0], {
      path: `${VISIT_PATH}?count=true&key=${PUBLISHABLE}`,
      type: 'text/plain;charset=UTF-8',
      body: { identity: { sessionId, device: 'desktop' }, productHandle: 'one' },
    });
    await page.reload();
    t.equal(await count(page, 'one'), 2);
    const tab = await visitor.open(url);
    t.equal(await sessionOf(tab), sessionId);
    t.equal(await count(tab, 'one'), 3);
    t.equal(await countOf(app, sessionId, 'one'), 3);
  });

  await t.test('count() never misses the visits before it, however slow they are to arrive', async (t) => {
    const page = await open(t, shop.show('/slow', tag(service)));
    const rounds = `(async () => {
      const counts = [];
      for (let i = 0; i < 10; i++) { void wishmeter.visit('r'); counts.push(await wishmeter.count('r')); }
      return counts;
    })()`;
    t.same(await page.evaluate(rounds), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    await page.route(`**${VISIT_PATH}?count=true*`, async (route) => {
      await sleep(100);
      await route.continue();
    });
    t.equal(await page.evaluate(`void wishmeter.visit('slow'), wishmeter.count('slow')`), 1);
    await page.unrouteAll();
  });

  await t.test('a page that comes back from the back/forward cache counts another visit', async (t) => {
    const page = await open(t, shop.show('/kept', tag(service, 'kept')));
    t.equal(await count(page, 'kept'), 1);
    const sessionId = await sessionOf(page);
    await page.goto(shop.show('/next', '<h1>next</h1>'));
    await page.evaluate('void setTimeout(() => history.back())');
    await eventually(t, () => countOf(app, sessionId, 'kept'), 2);
    t.equal(shop.asked.filter((path) => path === '/kept').length, 1, 'it was not loaded again');
  });

  await t.test('a visitor who leaves at once is counted', async (t) => {
    const left = shop.show('/left', '<h1>left</h1>');
    const leave = `document.addEventListener('DOMContentLoaded', () => { location.href = '${left}' })`;
    const html = `${tag(service, 'hurry')}<script>${leave}</script>`;
    const page = await open(t, shop.show('/hurry', html), left);
    await eventually(t, () => page.evaluate<string>(STORED).then((id) => countOf(app, id, 'hurry')), 1);
  });

  await t.test('a module, an early script, or two tags count one visit of the page', async (t) => {
    const visitor = await visit(t, fixtures);
    const ways = ['type="module"', '', 'async'].map((how) => tag(service, 'how', PUBLISHABLE, how));
    ways.push(`<div id="wishmeter"></div>${tag(service, 'how')}${tag(service, 'how')}`);
    for (const [i, html] of ways.entries()) {
      const page = await visitor.open(shop.show('/how', html));
      t.equal(await count(page, 'how'), i + 1, html);
    }
  });

  await t.test('without a handle only visit() counts, once for each call', async (t) => {
    const visitor = await visit(t, fixtures);
    const page = await visitor.open(shop.show('/app', tag(service)));
    t.equal(await page.evaluate(STORED), null, 'nothing was needed, nothing is stored');
    const odd = '__proto__ {x} "ü" &a=1#?+ 👟';
    const quoted = JSON.stringify(odd);
    const counted = `Promise.all([wishmeter.visit('a'), wishmeter.visit(${quoted}), wishmeter.visit('a'), wishmeter.count('a')])`;
    const [first, second, third, all] = await page.evaluate<number[]>(counted);
    t.same([first, third].sort(), [1, 2]);
    t.equal(second, 1);
    t.equal(all, 2, 'count() waits for all visits of its product');
    t.equal(await count(page, odd), 1);
    t.same(await page.evaluate(`wishmeter.counts(['a', 'b', '__proto__', ${quoted}]).then(Object.entries)`), [
      ['a', 2],
      ['b', 0],
      ['__proto__', 0],
      [odd, 1],
    ]);
    const visits = ['', '""', 'null', '7n', '{ __proto__: null }'].map((handle) => `visit(${handle})`);
    const wrong = [...visits, 'count(Symbol())', 'counts([])', 'counts()', 'counts(Array(101).fill("x"))'];
    const asked = `Promise.all([${wrong.map((call) => `wishmeter.${call}`)}])`;
    t.same(await page.evaluate(asked), Array(9).fill(undefined));
    const named = (await visitor.sent()).filter(({ body }) => typeof body.productHandle === 'string');
    t.equal(named.length, 3, 'no handle, no visit');
  });

  await t.test('calls before the script arrives wait in the stub and run in order', async (t) => {
    const early = `<script>
      const { visit } = wishmeter;
      window.early = Promise.all([visit('early'), wishmeter.visit('early'), wishmeter.count('early'), wishmeter.session()]);
      window.late = () => visit('early');
    </script>`;
    const page = await open(t, shop.show('/early', STUB + early + tag(service, 'early')));
    const [first, second, count, session] = await page.evaluate<unknown[]>('early');
    t.same([first, second].sort(), [2, 3], 'the page was the first');
    t.equal(count, 3);
    t.equal(session, await sessionOf(page));
    t.equal(await page.evaluate('late()'), 4, 'what the page took out of the stub goes on working');
  });

  await t.test(
    'a blocked or hanging script or POST answers undefined within 5 s, without an error',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.clock.install();
      await visitor.context.route('**/beacon.js', (route) => route.abort('blockedbyclient'));
      const url = shop.show('/blocked', STUB + tag(service, 'blocked'));
      await expectTimeOut(t, await visitor.open(url));
      t.same(await visitor.sent(), [], 'the stub answers');

      await visitor.context.unrouteAll();
      await visitor.context.route(`**${VISIT_PATH}*`, (route) => route.abort('blockedbyclient'));
      const page = await visitor.open(url);
      t.equal(await page.evaluate("wishmeter.visit('blocked')"), undefined, 'at once');
      t.equal(await count(page, 'blocked'), 0, 'reading is not blocked');
      await visitor.context.route(`**${VISIT_PATH}**`, () => {});
      await expectTimeOut(t, page);
    },
  );

  await t.test('a phone sends the device mobile', async (t) => {
    const visitor = await visit(t, fixtures, devices['Pixel 7']);
    const spy = `<script>
      const send = fetch;
      window.fetch = (url, options) => {
        window.asked = window.asked || options;
        return send(url, options);
      };
    </script>`;
    const page = await visitor.open(shop.show('/phone', spy + tag(service, 'phone')));
    t.equal(await count(page, 'phone'), 1);
    t.equal(await page.evaluate('asked.keepalive'), true, 'the request outlives the page');
    t.equal((await visitor.sent())[0]?.body.identity.device, 'mobile');
  });

  /** All of the API on a page whose clock stands still: nothing is answered before 5 s, undefined is then. */
  async function expectTimeOut(t: Test, page: Page): Promise<void> {
    // Until here it has run beside the real one, or stood still a minute ahead of it.
    pauses++;
    await page.clock.pauseAt(Date.now() + pauses * 60_000);
    await page.evaluate(`window.answers = [], Promise.all([
      wishmeter.visit('h'), wishmeter.count('h'), wishmeter.counts(['h']),
    ].map((answer) => answer.then((value) => answers.push(typeof value)))) && undefined`);
    await page.clock.runFor(4900);
    t.same(await page.evaluate('answers'), []);
    await page.clock.runFor(200);
    t.same(await page.evaluate('answers'), ['undefined', 'undefined', 'undefined']);
  }
}

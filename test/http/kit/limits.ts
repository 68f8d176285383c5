// What must end, or stay small, however many hearts, wishes and tabs there are: work, requests, and what is kept.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { type BrowserFixtures, eventually, sessionOf, visit } from '../../harness/storefront.js';
import { becomes, eventsOf, heartTag, openKit, press, pressed, showKit } from './shop.js';

const CORS = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'retry-after' };
/** Counts how often hearts are painted. */
const COUNT_PAINTS = `<script>window.paints = 0;
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === 'aria-pressed') paints++;
    set.call(this, name, value);
  };</script>`;

export async function kitLimits(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { app } = fixtures;
  const itemsOf = async (page: Page) =>
    (await app.shop.items({ sessionId: await sessionOf(page) })).map(({ productId }) => productId).sort();
  const paints = (page: Page) => page.evaluate<number>('paints');

  await t.test('a page of 1,000 hearts paints each of them a few times', async (t) => {
    const hearts = Array.from({ length: 1000 }, (_, id) => heartTag(id)).join('');
    const page = await openKit(t, fixtures, '/thousand', COUNT_PAINTS + hearts);
    await becomes(page, '', 999);
    const all = await paints(page);
    t.ok(all < 10_000, `${all} paints`);
  });

  await t.test('a heart that has left the page is neither painted nor kept', async (t) => {
    const page = await openKit(
      t,
      fixtures,
      '/left',
      COUNT_PAINTS + heartTag(1, 'smart-save="9"') + heartTag(2),
    );
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    await page.evaluate(`{
      const heart = document.querySelector('wishlist-heart');
      heart.remove();
      heart.setAttribute('name', 'Other');
      paints = 0;
      document.dispatchEvent(new Event('change'));
      window.kept = new WeakRef(heart);
    }`);
    await eventually(t, async () => (await paints(page)) > 0, true);
    const label = "kept.deref()?.shadowRoot.querySelector('button').ariaLabel";
    t.not(await page.evaluate(label), 'Wishlist: Other');
    const devtools = await page.context().newCDPSession(page);
    await eventually(
      t,
      async () => {
        await devtools.send('HeapProfiler.collectGarbage');
        return page.evaluate('kept.deref() === undefined');
      },
      true,
    );
  });

  for (const id of ['a:b', '__proto__', 'constructor', '*', 'a b'])
    await t.test(
      `a product with the id ${id} is saved and removed, also by any of its variants`,
      async (t) => {
        const any = `<wishlist-heart product-id="${id}" match="product" handle="any" price="1.00"></wishlist-heart>`;
        const page = await openKit(t, fixtures, '/ids', `${heartTag(id)}${any}`);
        const states = async () =>
          page.evaluate<string>(
            "[...document.querySelectorAll('wishlist-heart')].map((one) => one.getAttribute('state')).join()",
          );
        await eventually(t, states, ',');
        for (const last of [0, 1]) {
          await press(page, id);
          await eventually(t, states, 'saved,saved');
          t.same(await itemsOf(page), [id]);
          t.match((await eventsOf(page, 'change')).at(-1).items, [{ productId: id, variantId: `${id}1` }]);
          await page.locator('wishlist-heart button').nth(last).press('Enter');
          await eventually(t, states, ',');
          t.same(await itemsOf(page), []);
        }
      },
    );

  await t.test('a click that the kit can not even send is tried again ever later', async (t) => {
    const page = await openKit(t, fixtures, '/unsent', heartTag(1));
    await becomes(page, '');
    await page.evaluate(`window.runs = 0;
      const { request } = navigator.locks;
      navigator.locks.request = function (...given) { runs++; return request.apply(this, given); };
      AbortController = undefined`);
    await press(page);
    await page.waitForTimeout(1500);
    const runs = await page.evaluate<number>('runs');
    t.ok(runs > 0 && runs < 10, `${runs} tries`);
  });

  await t.test('a removal that removes nothing ends', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const any = '<wishlist-heart product-id="1" match="product" handle="any"></wishlist-heart>';
    const page = await visitor.open(showKit(fixtures, '/ends', any));
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    const json = { profileId: 'x', items: [{ productId: '1', variantId: null, itemId: 'x' }] };
    await visitor.context.route('**/item/check*', (route) => route.fulfill({ headers: CORS, json }));
    await press(page);
    await becomes(page, '');
    t.ok((await visitor.sent('/item/remove')).length < 5);
  });

  await t.test('a body that took too long is sent again', async (t) => {
    const visitor = await visit(t, fixtures, {});
    let isSlow = true;
    await visitor.context.route('**/item/add*', (route) => {
      if (!isSlow) return route.continue();
      isSlow = false;
      return route.fulfill({ status: 408, headers: CORS, json: { code: 'request_timeout' } });
    });
    const page = await visitor.open(showKit(fixtures, '/slow-body', heartTag(1)));
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    t.same(await itemsOf(page), ['1']);
  });

  await t.test(
    'a click in a tab whose last one waits, and another tab has sent, is sent at once',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      const shown = showKit(fixtures, '/relay', heartTag(1));
      const one = await visitor.open(shown);
      const two = await visitor.open(shown);
      await becomes(one, '');
      await becomes(two, '');
      await one.route('**/item/add*', (route) =>
        route.fulfill({ status: 429, headers: { ...CORS, 'retry-after': '300' }, json: {} }),
      );
      await press(one);
      await becomes(one, 'saved');
      await two.close();
      await press(one);
      await becomes(one, '');
    },
  );

  await t.test('a click is one change in each of five tabs', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const shown = showKit(fixtures, '/five', `${heartTag(1)}<wishlist-count></wishlist-count>`);
    const tabs = [];
    for (let i = 0; i < 5; i++) {
      const tab = await visitor.open(shown);
      await becomes(tab, '');
      await tab.waitForFunction("document.querySelector('wishlist-count').getAttribute('state') === ''");
      tabs.push(tab);
    }
    const [first, ...others] = tabs as [Page, ...Page[]];
    await press(first);
    for (const tab of tabs) await becomes(tab, 'saved');
    for (const tab of others) {
      await eventually(t, () => tab.locator('wishlist-count [part=badge]').textContent(), '1');
      t.equal(await pressed(tab), 'true');
      const shownAs = (await eventsOf(tab, 'change')).map(({ items }) => items.length);
      t.same(
        shownAs.filter((length, i) => length !== shownAs[i - 1]),
        [1],
      );
    }
  });
}

// What is wished is made so, whatever fails: storage, the service, a product, the clock, another script of the page.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import {
  type BrowserFixtures,
  eventually,
  sessionOf,
  type Visitor,
  visit,
} from '../../harness/storefront.js';
import { becomes, eventsOf, heartTag, openKit, press, pressed, rows, showKit } from './shop.js';

const CORS = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'retry-after' };
const failure = (status: number, headers = {}) => ({
  status,
  headers: { ...CORS, ...headers },
  json: { error: 'The wishlist is full.', code: 'x' },
});

export async function kitWishes(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app } = fixtures;
  const two = showKit(fixtures, '/wishes', heartTag(1) + heartTag(2));
  const itemsOf = async (page: Page) =>
    (await app.shop.items({ sessionId: await sessionOf(page) })).map(({ productId }) => productId);
  const isSaved = (page: Page, ...ids: string[]) =>
    eventually(t, async () => (await itemsOf(page)).sort().join(), ids.join());
  /** Answers /item/add of product 1 with a failure. */
  const refuse = ({ context }: Visitor, status: number, headers = {}) =>
    context.route('**/item/add*', (route) =>
      route.request().postDataJSON().productId === '1'
        ? route.fulfill(failure(status, headers))
        : route.continue(),
    );

  const forbidden = ['localStorage', 'sessionStorage'].map(
    (name) =>
      `Object.defineProperty(window, '${name}', { get() { throw new DOMException('', 'SecurityError'); } });`,
  );
  const locks =
    "if (navigator.locks) navigator.locks.request = () => Promise.reject(new DOMException('', 'SecurityError'));";
  const full =
    "try { for (let n = 2 ** 22; n; n >>= 1) try { for (;;) localStorage['x' + n + Math.random()] = 'x'.repeat(n); } catch {} } catch {}";
  for (const [name, script] of [
    ['forbids storage and locks', forbidden.join('') + locks],
    ['has no room in localStorage', full],
  ] as const)
    await t.test(`a click is saved in a browser that ${name}`, async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.addInitScript(script);
      const page = await visitor.open(two);
      await becomes(page, '', 2);
      await press(page);
      await becomes(page, 'saved');
      await isSaved(page, '1');
      await press(page);
      await becomes(page, '');
      await isSaved(page);
      t.same(visitor.warnings, []);
    });

  await t.test(
    'a service that is away is asked ever less often, and by a hidden tab not at all',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.route(/\/item\//, (route) => route.abort());
      await visitor.context.clock.install();
      const page = await visitor.open(
        showKit(fixtures, '/away-long', `${heartTag(1)}<wishlist-count></wishlist-count>`),
      );
      await page.locator('wishlist-heart[why=blocked]').waitFor();
      for (let id = 1; id < 11; id++)
        await page.evaluate(
          `wishmeter.add({ productId: ${id}, productHandle: 'p', productTitle: 'P', price: '1' })`,
        );
      const after = async (ms: number) => {
        const before = (await visitor.sent('/item/')).length;
        // Requests end in real time, between the steps of the clock.
        for (let i = 0; i < 60; i++) {
          await page.clock.runFor(ms / 60);
          await page.waitForTimeout(20);
        }
        return (await visitor.sent('/item/')).length - before;
      };
      const first = await after(60_000);
      t.ok(first > 2 && first < 40, `${first} requests in the first minute`);
      const show = (isHidden: boolean) =>
        page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
        document.dispatchEvent(new Event('visibilitychange'))`);
      await show(true);
      await after(20_000);
      t.equal(await after(600_000), 0, 'none while it is hidden');
      for (let i = 0; i < 5; i++) {
        await show(false);
        await show(true);
        await show(false);
      }
      await after(60_000);
      const later = await after(600_000);
      t.ok(later > 0 && later < 20, `${later} requests in ten minutes, however often one returned`);
    },
  );

  for (const [what, status, headers] of [
    ['is always answered 500', 500, {}],
    ['must wait for a month', 429, { 'retry-after': '2592000' }],
  ] as const)
    await t.test(`a click that ${what} holds up no other`, async (t) => {
      const visitor = await visit(t, fixtures, {});
      await refuse(visitor, status, headers);
      const page = await visitor.open(two);
      await becomes(page, '');
      await press(page);
      await becomes(page, 'saved pending');
      await page.evaluate('Date.now = () => 40 * 86_400_000 + performance.now()');
      await press(page, 2);
      await becomes(page, 'saved', 2);
      await isSaved(page, '2');
      const sent = (await visitor.sent('/item/add')).length;
      await page.waitForTimeout(1500);
      const more = (await visitor.sent('/item/add')).length - sent;
      t.ok(more < 4, `${more} requests after the clock was set`);
      await visitor.context.unrouteAll();
      await page.reload();
      await becomes(page, 'saved');
      await isSaved(page, '1', '2');
    });

  await t.test('a refused click is undone, and its reason is said and shown', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await refuse(visitor, 409);
    const page = await visitor.open(two);
    await becomes(page, '');
    await press(page);
    await becomes(page, 'error');
    t.equal(await pressed(page), 'false');
    const message = 'Something went wrong: The wishlist is full.';
    t.ok(await page.locator('wishlist-heart [part=toast]').getByText(message).isVisible());
    await page.getByRole('status').filter({ hasText: message }).waitFor();
    t.match(await eventsOf(page, 'error'), [{ code: 'x', error: 'The wishlist is full.', willRetry: false }]);
    await press(page, 2);
    await becomes(page, 'saved', 2);
    await page.getByRole('status').filter({ hasText: 'Added to the wishlist' }).waitFor();
    t.equal(await page.getByRole('status').getByText('Added').count(), 1);
  });

  await t.test('a damaged stored value, a wrong heart or a foreign element stops nothing else', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const wrong = `<wishlist-heart product-id="3" variant-from="[["></wishlist-heart>
      <wishlist-heart for="#none"></wishlist-heart><script type="application/json" id="bare">{"id":4,"variants":[]}</script>
      <wishlist-heart for="#bare"></wishlist-heart><wishlist-count></wishlist-count>`;
    const other = "<script>customElements.define('wishlist-count', class extends HTMLElement {})</script>";
    const page = await visitor.open(two);
    await becomes(page, '');
    await page.evaluate(`localStorage.wishmeter_list = '{"id'; localStorage['wishmeter_wish_1\\n11'] = '{';
      localStorage['wishmeter_wish_2\\n21'] = '7'; localStorage.wishmeter_linked = 'x'`);
    await page.goto(
      showKit(fixtures, '/damaged', other + wrong + heartTag(1), 'data-product-handle="damaged"'),
    );
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    t.equal(await page.evaluate("wishmeter.count('damaged')"), 1);
    t.match(visitor.warnings.join('\n'), /wishlist-count/);
  });

  await t.test(
    'a friend’s items are saved as one change, and a closed page’s rest by the next one',
    async (t) => {
      const [visitor, friend] = [await visit(t, fixtures, {}), { sessionId: 'friend-of-many' }];
      const ids = Array.from({ length: 120 }, (_, i) => `${i}`);
      for (const id of ids) await app.shop.add(friend, { productId: id, productHandle: `shoe-${id}` });
      const { code } = await app.shop.share(friend);
      showKit(fixtures, '/many', '<wishlist-page></wishlist-page>');
      const page = await visitor.open(`${shop.origin}/many?code=${code}`);
      await rows(page).first().waitFor();
      await page.getByRole('button', { name: 'Save to my wishlist' }).click();
      await page.getByRole('button', { name: 'Added to the wishlist' }).waitFor();
      t.match(await eventsOf(page, 'add'), [{ reason: 'click', items: { length: 120 } }]);
      t.equal((await eventsOf(page, 'change')).filter(({ reason }) => reason === 'click').length, 1);
      await page.goto(two);
      await eventually(t, async () => (await itemsOf(page)).length, 120);
    },
  );

  await t.test(
    'a counter asks for the number, not for the list, and on return at most every 30 s',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.clock.install();
      const page = await visitor.open(
        showKit(fixtures, '/counter', `${heartTag(1)}<wishlist-count></wishlist-count>`),
      );
      const badge = () => page.locator('wishlist-count [part=badge]').textContent();
      await eventually(t, badge, '0');
      await press(page);
      await becomes(page, 'saved');
      t.equal(await badge(), '1');
      const sessionId = await sessionOf(page);
      await app.shop.add({ sessionId }, { productId: '9' });
      const counts = async () => (await visitor.sent('/item/count')).length;
      const comeBack = () => page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
      const before = await counts();
      for (let i = 0; i < 5; i++) await comeBack();
      await page.clock.runFor(1000);
      t.equal(await counts(), before);
      await page.clock.runFor(31_000);
      await comeBack();
      await page.clock.runFor(1000);
      await eventually(t, badge, '2');
      t.same(await visitor.sent('/item/list'), []);
    },
  );

  await t.test('a heart for any variant removes all variants', async (t) => {
    const heart = '<wishlist-heart product-id="1" match="product" handle="shoe-1"></wishlist-heart>';
    const page = await openKit(t, fixtures, '/any', `${heart}<wishlist-count></wishlist-count>`);
    await becomes(page, '');
    const sessionId = await sessionOf(page);
    for (const variantId of ['11', '12', null])
      await app.shop.add({ sessionId }, { productId: '1', variantId });
    await page.reload();
    await becomes(page, 'saved');
    const badge = () => page.locator('wishlist-count [part=badge]').textContent();
    await eventually(t, badge, '3');
    await press(page);
    await becomes(page, '');
    await isSaved(page);
    await eventually(t, badge, '0');
  });

  await t.test('a click in a retired session is saved in a new one', async (t) => {
    const page = await (await visit(t, fixtures)).open(two);
    await becomes(page, '');
    const sessionId = await sessionOf(page);
    await app.shop.add({ sessionId }, { productId: '2' });
    for (const customerId of ['60', '61']) await app.shop.login({ customerId, sessionId });
    await app.shop.erase({ customerId: '61' });
    await press(page);
    await becomes(page, 'saved');
    t.not(await sessionOf(page), sessionId);
    await isSaved(page, '1');
  });

  await t.test(
    'a removal starts the visits anew behind a proxy that drops the body of a DELETE',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.route('**/product/visit?*', async (route) => {
        const request = route.request();
        if (request.method() !== 'DELETE') return route.continue();
        const { status } = await fetch(request.url(), { method: 'DELETE', headers: { origin: shop.origin } });
        await route.fulfill({ status, headers: CORS, json: { profileId: 'x' } });
      });
      const page = await visitor.open(
        showKit(fixtures, '/proxied', heartTag(1), 'data-product-handle="shoe-1"'),
      );
      await becomes(page, '');
      await press(page);
      await becomes(page, 'saved');
      t.equal(await page.evaluate("wishmeter.count('shoe-1')"), 1);
      await press(page);
      await becomes(page, '');
      await eventually(t, () => page.evaluate("wishmeter.count('shoe-1')"), 0);
    },
  );
}

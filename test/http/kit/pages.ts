// The list page, the count, Smart Save, and a customer's list through the shop's backend.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { type BrowserFixtures, countOf, eventually, sessionOf, visit } from '../../harness/storefront.js';
import { openBackend } from './backend.js';
import {
  becomes,
  eventsOf,
  faultsOf,
  fill,
  heartTag,
  kitTag,
  LISTENER,
  openKit,
  press,
  pressed,
  ROOM,
  rows,
  SHOE,
  showKit,
} from './shop.js';

export async function kitPages(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const html = (more = '') =>
    `<html lang="en"><body><main><h1>Wishlist</h1>${ROOM}${LISTENER}${heartTag(9)}<wishlist-count max="99"></wishlist-count><wishlist-page ${more}></wishlist-page></main>${kitTag(service)}`;
  const url = shop.show('/list', html('cart="shopify" page-size="2"'));
  const count = (page: Page) => page.locator('wishlist-count [part=badge]').textContent();

  await t.test(
    'the list shows more rows, removes with focus and undo, and agrees with the count',
    async (t) => {
      const page = await (await visit(t, fixtures)).open(url);
      await page.getByText('Your wishlist is empty').waitFor();
      await eventually(t, () => count(page), '0');
      const sessionId = await fill(fixtures, page, [1, 2, 3]);
      t.equal(await rows(page).count(), 2);
      await eventually(t, () => count(page), '3');
      t.match(await rows(page).first().textContent(), /Shoe 3.*€79\.90/);
      await page.getByRole('button', { name: 'Show more' }).press('Enter');
      t.equal(await rows(page).count(), 3);
      const focused = "document.querySelector('wishlist-page').shadowRoot.activeElement";
      t.equal(await page.evaluate(`${focused}.textContent`), 'Shoe 1');
      await page.getByRole('button', { name: 'Remove: Shoe 2' }).press('Enter');
      t.equal(await rows(page).count(), 2);
      t.equal(await page.evaluate(`${focused}.ariaLabel`), 'Remove: Shoe 1', 'focus is in the next row');
      await eventually(t, () => count(page), '2');
      await eventually(t, async () => (await app.shop.items({ sessionId })).length, 2);
      await page.getByRole('status').filter({ hasText: 'Removed from the wishlist' }).waitFor();
      t.same(await faultsOf(page), []);
      await page.getByRole('button', { name: 'Undo' }).press('Enter');
      t.equal(await rows(page).count(), 3);
      await eventually(t, async () => (await app.shop.items({ sessionId })).length, 3);
    },
  );

  for (const tab of ['this', 'another'])
    await t.test(`a list that a click in ${tab} tab has overtaken is asked for again`, async (t) => {
      const visitor = await visit(t, fixtures, {});
      let isAsked = false;
      let release = () => {};
      const isAdded = new Promise<void>((done) => {
        release = done;
      });
      await visitor.context.route(/item\/list/, async (route) => {
        const response = await route.fetch();
        isAsked = true;
        await isAdded;
        await route.fulfill({ response });
      });
      const page = await visitor.open(url);
      await eventually(t, async () => isAsked, true);
      const other = showKit(fixtures, '/nine', heartTag(9));
      await press(tab === 'this' ? page : await visitor.open(other), 9);
      const added = async () => (await visitor.sent('/item/add')).some(({ status }) => status === 200);
      await eventually(t, added, true);
      release();
      await rows(page).filter({ hasText: 'Shoe 9' }).waitFor();
      await becomes(page, 'saved', 9);
    });

  await t.test('an item leaves the list only once the cart has it', async (t) => {
    const page = await (await visit(t, fixtures)).open(url);
    const sessionId = await fill(fixtures, page, [1]);
    await page.getByRole('button', { name: 'Add to cart: Shoe 1' }).click();
    await page.getByText('Something went wrong').first().waitFor();
    t.equal(await rows(page).count(), 1, 'the cart has refused it');
    shop.show('/cart/add.js', '');
    await page.getByRole('button', { name: 'Add to cart: Shoe 1' }).click();
    await eventually(t, () => rows(page).count(), 0);
    await eventually(t, async () => (await app.shop.items({ sessionId })).length, 0);
    t.match(await eventsOf(page, 'remove'), [{ event: 'moveToCart' }]);
  });

  await t.test('a friend sees a shared list, and saves all of it in its order', async (t) => {
    const visitor = await visit(t, fixtures);
    const page = await visitor.open(url);
    const sessionId = await fill(fixtures, page, [1, 2]);
    await page.evaluate(
      "Object.defineProperty(navigator, 'share', { value: async ({ url }) => { window.shared = url } })",
    );
    await page.getByRole('button', { name: 'Share' }).click();
    await page.waitForFunction('window.shared');
    const code = /share\/(\w+)$/.exec(await page.evaluate('shared'))?.[1];
    const friends = await visit(t, fixtures, {});
    let refusals = 1;
    await friends.context.route(`${service}/share/**`, (route) =>
      refusals-- > 0
        ? route.fulfill({
            status: 503,
            headers: { 'access-control-allow-origin': '*' },
            body: '{"code":"unavailable"}',
          })
        : route.continue(),
    );
    shop.show('/friend', html());
    const friend = await friends.open(`${shop.origin}/friend?code=${code}`);
    await rows(friend).first().waitFor();
    const titles = async (of: Page) => (await rows(of).locator('a').allTextContents()).join();
    t.equal(await titles(friend), 'Shoe 2,Shoe 1');
    const box = (part: string) => rows(friend).first().locator(`[part=${part}]`).boundingBox();
    const [title, price] = [await box('title'), await box('price')];
    t.ok(title && price && price.y - (title.y + title.height) < 8, 'the price is right below the title');
    const icon = await rows(friend).first().locator('svg').boundingBox();
    t.equal(icon?.x, title?.x, 'the heart stands below the title');
    t.equal(await friend.getByRole('button', { name: /Remove/ }).count(), 0);
    await friend.getByRole('button', { name: 'Save to my wishlist' }).click();
    const done = friend.getByRole('button', { name: 'Added to the wishlist' });
    t.equal(await done.getAttribute('aria-disabled'), 'true');
    const other = await sessionOf(friend);
    t.not(other, sessionId);
    await eventually(t, async () => (await app.shop.items({ sessionId: other })).length, 2);
    await friend.goto(url);
    await rows(friend).first().waitFor();
    t.equal(await titles(friend), 'Shoe 2,Shoe 1', 'in the same order');
    await friend.goto(`${url}?code=SAVE10`);
    await rows(friend).first().waitFor();
    const removes = friend.getByRole('button', { name: /Remove/ });
    t.equal(await removes.count(), 2, "a shop's other code changes nothing");
  });

  await t.test('prices and stock of today come from the shop', async (t) => {
    const today = `<script>window.wishmeterOptions = { products: async (items) =>
      items.map(({ productId, variantId }) => ({ productId, variantId, price: '49.00', available: false })) };</script>`;
    const page = await (await visit(t, fixtures)).open(shop.show('/today', today + html()));
    await fill(fixtures, page, [1]);
    await rows(page)
      .filter({ hasText: /€49\.00.*€79\.90.*Sold out/ })
      .waitFor();
  });

  await t.test(
    'Smart Save offers at the third visit, and a removal restarts the count on every device',
    async (t) => {
      const page = await openKit(t, fixtures, '/smart', heartTag(1, 'smart-save="3"'), SHOE);
      for (const visits of [1, 2]) {
        t.equal(await page.evaluate("wishmeter.count('shoe-1')"), visits);
        await page.reload();
      }
      await page.setViewportSize({ width: 390, height: 844 });
      const height = async (name: string) =>
        (await page.getByRole('button', { name, exact: true }).boundingBox())?.y;
      t.equal(await height('Yes'), await height('No'), 'beside each other');
      await page.getByRole('button', { name: 'Yes' }).click();
      await becomes(page, 'saved');
      const sessionId = await sessionOf(page);
      t.match(await app.shop.items({ sessionId }), [{ source: 'pdpSmartSave' }]);
      await press(page);
      await eventually(t, () => countOf(app, sessionId, 'shoe-1'), 0);
      await page.reload();
      t.equal(await page.evaluate("wishmeter.count('shoe-1')"), 1);
      t.equal(await page.getByRole('button', { name: 'Yes' }).count(), 0);
    },
  );

  await t.test('smart-save-auto saves the product, with an undo', async (t) => {
    const heart = heartTag(1, 'smart-save="1" smart-save-auto');
    const page = await openKit(t, fixtures, '/auto', heart, SHOE);
    await becomes(page, 'saved');
    t.match(await eventsOf(page, 'change'), [{ reason: 'smart-save' }]);
    const sessionId = await sessionOf(page);
    await page.getByRole('button', { name: 'Undo' }).click();
    await becomes(page, '');
    await eventually(t, () => countOf(app, sessionId, 'shoe-1'), 0);
  });

  await openBackend(t, fixtures);

  await t.test(
    "a login keeps the guest's list and an old tab's click; after a logout the next guest finds nothing",
    async (t) => {
      const body = `${[1, 2, 3].map((id) => heartTag(id)).join('')}<wishlist-count></wishlist-count>`;
      const member = shop.show('/member', (customerId) => {
        const customer = customerId && `c${customerId}`;
        const kit = kitTag(service, `data-backend="/wishlist" data-customer="${customer}"`);
        return `${ROOM}${LISTENER}${body}${kit}`;
      });
      const visitor = await visit(t, { ...fixtures, browser: await fixtures.withBfcache(t) });
      const old = await visitor.open(member);
      await becomes(old, '');
      await press(old);
      await becomes(old, 'saved');
      await visitor.login('7');
      const page = await visitor.open(member);
      await becomes(page, 'saved');
      await eventually(t, async () => (await app.shop.items({ customerId: '7' })).length, 1);
      await press(old, 2);
      await becomes(old, 'saved', 2);
      await becomes(page, 'saved', 2);
      await eventually(t, async () => (await app.shop.items({ customerId: '7' })).length, 2);
      await visitor.login('');
      // A tab that does not know of the logout.
      await press(old, 3);
      await eventually(t, () => pressed(old), 'false');
      await page.reload();
      await becomes(page, '');
      t.equal(await pressed(page, 2), 'false');
      const next = { sessionId: await sessionOf(page) };
      t.same(await app.shop.items(next), [], 'the next guest gets nothing of it');
      t.equal((await app.shop.items({ customerId: '7' })).length, 2);

      await visitor.login('7');
      await page.reload();
      await becomes(page, 'saved');
      await page.evaluate('window.isSame = true');
      await page.goto(shop.show('/elsewhere', 'elsewhere'));
      await visitor.login('');
      await old.reload();
      await becomes(old, '');
      await page.goBack({ waitUntil: 'commit' });
      await eventually(t, () => page.evaluate('window.isSame'), true); // it comes from bfcache
      await becomes(page, '');
      const stored = await page.evaluate<string[]>('Object.keys(localStorage)');
      t.notOk(stored.find((name) => name.startsWith('wishmeter_wish_')));
      t.equal(await page.locator('wishlist-count [part=badge]').textContent(), '0');
    },
  );

  const silent = 'data-backend="/wishlist" data-customer=""';
  for (const isLoggedIn of [true, false])
    await t.test(`a click after a ${isLoggedIn ? 'login' : 'logout'} that no page has told of`, async (t) => {
      const visitor = await visit(t, fixtures);
      const page = await visitor.open(showKit(fixtures, '/stale', heartTag(1), silent));
      await becomes(page, '');
      const [sessionId, customerId] = [await sessionOf(page), isLoggedIn ? '8' : '9'];
      if (isLoggedIn) await visitor.login(customerId);
      await app.shop.login({ customerId, sessionId });
      await press(page);
      await becomes(page, 'saved');
      const own = async () => (await app.shop.items({ customerId })).length;
      await eventually(t, own, isLoggedIn ? 1 : 0);
      const session = await sessionOf(page);
      t.equal(session === sessionId, isLoggedIn, 'who is not logged in goes on in a new session');
      t.equal((await app.shop.items({ sessionId: session })).length, 1);
    });
}

// Whose list it is: logins, logouts and withdrawn consent while requests are under way, in this tab and in others.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import {
  type BrowserFixtures,
  eventually,
  sessionOf,
  type Visitor,
  visit,
} from '../../harness/storefront.js';
import { openBackend } from './backend.js';
import { becomes, heartTag, kitTag, LISTENER, press, pressed, ROOM, rows, showKit } from './shop.js';

const HEARTS = [1, 2, 3].map((id) => heartTag(id)).join('');

export async function kitSessions(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  await openBackend(t, fixtures);
  const showMember = (path: string, body: string) =>
    shop.show(path, (id) => {
      const customer = `data-backend="/wishlist" data-customer="${id && `c${id}`}"`;
      return `${ROOM}${LISTENER}${body}${kitTag(service, customer)}`;
    });
  const itemsOf = async (page: Page) =>
    (await app.shop.items({ sessionId: await sessionOf(page) })).map(({ productId }) => productId).sort();
  /** Holds answers back until what this gives is called. */
  const hold = async ({ context }: Visitor, path: string) => {
    let go = () => {};
    const gate = new Promise<void>((done) => {
      go = done;
    });
    let isHeld = () => {};
    const held = new Promise<void>((done) => {
      isHeld = done;
    });
    await context.route(path, async (route) => {
      const response = await route.fetch();
      isHeld();
      await gate;
      await route.fulfill({ response }).catch(() => {});
    });
    return { held, go };
  };

  for (const [what, path, body] of [
    ['hearts', '/item/check', ''],
    ['a list', '/item/list', '<wishlist-page></wishlist-page>'],
    ['a click', '/item/add', heartTag(2)],
  ] as const)
    await t.test(`an answer about ${what} that comes after the logout shows nothing`, async (t) => {
      const customerId = `70${path.length}`;
      await app.shop.add({ customerId }, { productId: '1', variantId: '11' });
      const visitor = await visit(t, fixtures, {});
      await visitor.login(customerId);
      const page = await visitor.open(showMember('/overtaken', body + heartTag(1)));
      await becomes(page, 'saved');
      const answer = await hold(visitor, `**/wishlist${path}`);
      await page.reload();
      if (path === '/item/add') {
        await becomes(page, '', 2);
        await press(page, 2);
      }
      await answer.held;
      await visitor.login('');
      // The guest's own list is not known.
      await visitor.context.route(`${service}/item/**`, (route) => route.abort());
      const settled = page.waitForResponse(`**/wishlist${path}`);
      await page.evaluate("wishmeter.login({ customer: '' })");
      answer.go();
      await settled;
      await page.waitForFunction("seen.some(([name]) => name === 'error')");
      await page.waitForTimeout(200);
      t.equal(await page.locator('wishlist-heart[state~=saved], wishlist-page [part~=row]').count(), 0);
    });

  await t.test('a list that fails to be read again stays', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const page = await visitor.open(showKit(fixtures, '/again', '<wishlist-page></wishlist-page>'));
    await page.getByText('Your wishlist is empty').waitFor();
    await app.shop.add({ sessionId: await sessionOf(page) }, { productId: '1' });
    await page.evaluate('wishmeter.refresh()');
    await rows(page).waitFor();
    await visitor.context.route('**/item/*', (route) =>
      route.fulfill({ status: 500, headers: { 'access-control-allow-origin': '*' }, json: {} }),
    );
    t.equal(await page.evaluate('wishmeter.list()'), undefined);
    t.equal(await rows(page).count(), 1);
  });

  await t.test('a tab from before a logout loses no click of the next visitor', async (t) => {
    const visitor = await visit(t, { ...fixtures, browser: await fixtures.withBfcache(t) });
    await app.shop.add({ customerId: '71' }, { productId: '1', variantId: '11' });
    const member = showMember('/next', HEARTS);
    await visitor.login('71');
    const old = await visitor.open(member);
    await becomes(old, 'saved');
    await old.evaluate('window.isSame = true');
    await old.goto(shop.show('/elsewhere', 'elsewhere'));
    await visitor.login('');
    const page = await visitor.open(member);
    await becomes(page, '', 2);
    await visitor.context.route('**/item/add*', (route) => route.abort());
    await press(page, 2);
    await page.waitForFunction("seen.some(([name]) => name === 'error')");
    await old.goBack({ waitUntil: 'commit' });
    await eventually(t, () => old.evaluate('window.isSame'), true); // it comes from bfcache
    await old.locator('wishlist-heart[product-id="2"][state~=saved]').waitFor();
    await becomes(old, '', 1);
    t.equal(await pressed(page, 2), 'true');
    await visitor.context.unrouteAll();
    await page.evaluate("dispatchEvent(new Event('online'))");
    await becomes(page, 'saved', 2);
    t.same(await itemsOf(page), ['2']);
  });

  await t.test('a tab that has learnt of a login keeps the next guest’s session', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const silent = showKit(fixtures, '/silent', HEARTS, 'data-backend="/wishlist" data-customer=""');
    const old = await visitor.open(silent);
    await becomes(old, '');
    await visitor.login('72');
    await app.shop.login({ customerId: '72', sessionId: await sessionOf(old) });
    await press(old);
    await becomes(old, 'saved');
    await visitor.login('');
    const page = await visitor.open(silent);
    await becomes(page, '');
    await press(page, 2);
    await becomes(page, 'saved', 2);
    await becomes(old, 'saved', 2);
    await press(old, 3);
    await becomes(old, 'saved', 3);
    await becomes(page, 'saved', 3);
    t.same(await itemsOf(page), ['2', '3']);
    const sessions = (await visitor.sent('/item/')).map(({ body }) => body.identity.sessionId);
    t.equal(new Set(sessions).size, 2, 'the customer’s and the next guest’s');
  });

  await t.test('a login with no customer, or with a number, is one', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await app.shop.add({ customerId: '73' }, { productId: '1', variantId: '11' });
    const page = await visitor.open(showKit(fixtures, '/numbers', HEARTS));
    await becomes(page, '');
    await visitor.login('73');
    await page.evaluate("wishmeter.login({ customer: 73, backend: '/wishlist' })");
    await becomes(page, 'saved');
    for (const nobody of ['undefined', 'null']) {
      await page.evaluate("wishmeter.login({ customer: 73, backend: '/wishlist' })");
      await becomes(page, 'saved');
      const before = await sessionOf(page);
      await page.evaluate(`wishmeter.login({ customer: ${nobody} })`);
      await becomes(page, '');
      t.not(await sessionOf(page), before);
    }
  });

  await t.test('under Global Privacy Control a logout ends the session, too', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.addInitScript(
      "Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })",
    );
    const member = showMember('/private', HEARTS);
    const page = await visitor.open(member);
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    await visitor.login('74');
    await page.reload();
    await becomes(page, 'saved');
    await press(page, 2);
    await becomes(page, 'saved', 2);
    await visitor.login('');
    await visitor.context.route(/\/item\//, (route) => route.abort());
    await page.reload();
    await becomes(page, '');
  });

  await t.test('a forgotten visitor’s hearts are empty at once', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const page = await visitor.open(showKit(fixtures, '/forgotten', HEARTS));
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    t.equal(await page.evaluate('wishmeter.forget()'), await sessionOf(page));
    await becomes(page, '');
  });

  await t.test('a click that waits for a retry is not sent after consent is withdrawn', async (t) => {
    const visitor = await visit(t, fixtures, {});
    let asked = 0;
    await visitor.context.route(`${service}/**`, (route) => {
      if (route.request().method() !== 'POST') return route.continue();
      asked++;
      return route.fulfill({ status: 503, headers: { 'access-control-allow-origin': '*' }, json: {} });
    });
    await visitor.context.clock.install();
    const page = await visitor.open(
      showKit(fixtures, '/withdrawn', HEARTS, 'data-consent data-product-handle="withdrawn"'),
    );
    await page.evaluate('wishmeter.consent(true)');
    await eventually(t, async () => asked > 1, true);
    await press(page);
    await page.waitForFunction("seen.some(([name]) => name === 'error')");
    await page.evaluate('wishmeter.consent(false)');
    const before = asked;
    await page.clock.runFor(60_000);
    t.equal(asked, before);
  });
}

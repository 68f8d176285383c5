// Pages that change without a load: Turbo, htmx, and a router of the shop's own on the History API.

import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import {
  type BrowserFixtures,
  eventually,
  sessionOf,
  tag,
  type Visitor,
  visit,
} from '../../harness/storefront.js';
import { openBackend } from './backend.js';
import { becomes, heartTag, kitTag, LISTENER, press, pressed, ROOM, rows } from './shop.js';

const LIBRARIES = {
  turbo: 'node_modules/@hotwired/turbo/dist/turbo.es2017-umd.js',
  htmx: 'node_modules/htmx.org/dist/htmx.js',
};

/** Replaces the body, and says to the kit what the page shows and who is logged in, as docs/storefront.md has it. */
const ROUTER = `<script>
  async function show(url) {
    const next = new DOMParser().parseFromString(await (await fetch(url)).text(), 'text/html');
    const { handle, customer } = next.body.dataset;
    document.body.replaceWith(next.body);
    wishmeter.login({ customer, backend: '/wishlist' });
    if (handle) wishmeter.visit(handle);
  }
  addEventListener('click', (event) => {
    const link = event.composedPath().find(({ localName }) => localName === 'a');
    if (!link) return;
    event.preventDefault();
    history.pushState({}, '', link.href);
    show(link.href);
  });
  addEventListener('popstate', () => show(location.href));
</script>`;

export async function kitNavigation(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  await openBackend(t, fixtures);

  for (const way of ['turbo', 'htmx', 'router'] as const)
    await t.test(`${way}: each view is one visit, and logins and logouts are noticed`, async (t) => {
      const head = way === 'router' ? ROUTER : `<script src="/${way}.js" defer></script>`;
      const pageOf = (id: number | null) => (customerId: string) => {
        const handle = id === null ? '' : `shoe-${id}`;
        const customer = customerId && `${way}${customerId}`;
        const tag = kitTag(
          service,
          `${id === null ? '' : `data-product-handle="${handle}"`} data-customer="${customer}" data-backend="/wishlist"`,
        );
        const links = ['1', '2', 'list'].map((to) => `<a id="to-${to}" href="/${way}-${to}">${to}</a>`);
        const shown = id === null ? '<wishlist-page></wishlist-page>' : heartTag(id, 'smart-save="2"');
        const once = way === 'router' ? '' : tag;
        return `<head>${head}${ROOM}${way === 'router' ? LISTENER + tag : ''}</head>
          <body hx-boost="true" data-handle="${handle}" data-customer="${customer}">${links.join(' ')}
          <wishlist-count></wishlist-count>${shown}${once}</body>`;
      };
      for (const to of ['1', '2', 'list'])
        shop.show(`/${way}-${to}`, pageOf(to === 'list' ? null : Number(to)));
      const visitor = await visit(t, fixtures, {});
      if (way !== 'router') {
        const body = readFileSync(LIBRARIES[way], 'utf8');
        await visitor.context.route(`**/${way}.js`, (route) =>
          route.fulfill({ body, contentType: 'text/javascript' }),
        );
      }
      const page = await visitor.open(`${shop.origin}/${way}-1`);
      await page.evaluate('window.isSame = true');
      const goTo = async (to: number | string) => {
        await page.locator(`#to-${to}`).click();
        await page.waitForURL(`**/${way}-${to}`);
        if (to === 'list') await page.locator('wishlist-page:not([state=loading])').waitFor();
        else await page.locator(`wishlist-heart[product-id="${to}"]`).waitFor();
      };
      const visits = async (id: number) => page.evaluate(`wishmeter.count('shoe-${id}')`);

      await becomes(page, '');
      t.equal(await visits(1), 1);
      await goTo(2);
      await becomes(page, '', 2);
      await eventually(t, () => visits(2), 1);
      await press(page, 2);
      await becomes(page, 'saved', 2);
      await goTo('list');
      await rows(page).filter({ hasText: 'Shoe 2' }).waitFor();
      await goTo(1);
      await eventually(t, () => visits(1), 2);
      await page.getByRole('button', { name: 'No', exact: true }).click();
      t.equal(await visits(2), 1, 'a page is counted when it is shown, and once');
      await page.goBack();
      await rows(page).filter({ hasText: 'Shoe 2' }).waitFor();
      t.equal(await page.locator('wishlist-count [part=badge]').textContent(), '1');

      const guest = await sessionOf(page);
      await visitor.login('7');
      await goTo(2);
      await becomes(page, 'saved', 2);
      const customerId = `${way}7`;
      await eventually(t, async () => (await app.shop.items({ customerId: '7' })).length > 0, true);
      t.equal(await sessionOf(page), guest, customerId);
      await visitor.login('');
      await goTo('list');
      await page.getByText('Your wishlist is empty').waitFor();
      t.equal(await rows(page).count(), 0, 'the next person does not see the last one’s list');
      t.not(await sessionOf(page), guest);
      await goTo(2);
      await becomes(page, '', 2);
      t.equal(await pressed(page, 2), 'false');
      t.equal(await page.evaluate('window.isSame'), true, 'no page was loaded');
      await app.shop.erase({ customerId: '7' });
    });

  await t.test('a router that keeps the element: the list follows the `code` in the address', async (t) => {
    const visitor = await visit(t, fixtures, {});
    const page = await visitor.open(
      shop.show('/kept', `${heartTag(2)}<wishlist-page></wishlist-page>${kitTag(service)}`),
    );
    await becomes(page, '', 2);
    await press(page, 2);
    await rows(page).filter({ hasText: 'Shoe 2' }).waitFor();
    const friend = { sessionId: 's-friend-of-kept' };
    const product = { productId: '1', variantId: '11', productHandle: 'shoe-1' };
    await app.shop.add(friend, { ...product, productTitle: 'Shoe 1', price: '49.90', currencyCode: 'EUR' });
    const { code } = await app.shop.share(friend);
    const titles = async () => (await rows(page).locator('a').allTextContents()).join();
    for (const isFriends of [true, false, true]) {
      await page.evaluate(`history.pushState({}, '', '/kept${isFriends ? `?code=${code}` : ''}')`);
      await eventually(t, titles, isFriends ? 'Shoe 1' : 'Shoe 2');
      t.equal(await page.getByText('A friend’s wishlist').isVisible(), isFriends);
      t.equal(await page.getByRole('button', { name: /Remove/ }).count(), isFriends ? 0 : 1);
    }
    await page.goBack();
    await eventually(t, titles, 'Shoe 2');
    await page.evaluate(`document.querySelector('wishlist-page').setAttribute('code', '${code}')`);
    await eventually(t, titles, 'Shoe 1');
    await page.evaluate("history.pushState({}, '', '/kept?page=2')");
    t.equal(await titles(), 'Shoe 1', 'an attribute of the shop stands above the address');
  });

  const openWithTurbo = async (visitor: Visitor, url: string) => {
    const body = readFileSync(LIBRARIES.turbo, 'utf8');
    await visitor.context.route('**/turbo.js', (route) =>
      route.fulfill({ body, contentType: 'text/javascript' }),
    );
    const page = await visitor.open(url);
    const goTo = async (id: number) => {
      await page.locator(`#to-${id}`).click();
      await page.locator(`wishlist-heart[product-id="${id}"]`).waitFor();
    };
    return { page, goTo };
  };

  await t.test('a page from before a logout that Turbo shows again ends no session', async (t) => {
    const links = [1, 2, 3].map((id) => `<a id="to-${id}" href="/old-${id}">${id}</a>`).join(' ');
    for (const id of [1, 2, 3])
      shop.show(`/old-${id}`, (customerId) => {
        const customer = `data-customer="${customerId && `o${customerId}`}" data-backend="/wishlist"`;
        return `<head><script src="/turbo.js" defer></script></head><body>${links}${heartTag(id)}${kitTag(service, customer)}</body>`;
      });
    const visitor = await visit(t, fixtures, {});
    await visitor.login('76');
    const { page, goTo } = await openWithTurbo(visitor, `${shop.origin}/old-1`);
    await becomes(page, '');
    await goTo(2);
    await becomes(page, '', 2);
    await visitor.login('');
    await goTo(3);
    await becomes(page, '', 3);
    await press(page, 3);
    await becomes(page, 'saved', 3);
    const guest = await sessionOf(page);
    await page.goBack();
    await becomes(page, '', 2);
    t.equal(await sessionOf(page), guest);
    await goTo(1);
    await becomes(page, '', 1);
    await goTo(3);
    await becomes(page, 'saved', 3);
    t.equal(await sessionOf(page), guest);
  });

  await t.test('with the beacon beside the kit, each of Turbo’s pages is one visit', async (t) => {
    const links = [1, 2].map((id) => `<a id="to-${id}" href="/twice-${id}">${id}</a>`).join(' ');
    for (const id of [1, 2]) {
      const own = `data-product-handle="twice-${id}"`;
      const tags = tag(service, `twice-${id}`, undefined, '') + kitTag(service, own).replace('async', '');
      shop.show(
        `/twice-${id}`,
        `<head><script src="/turbo.js" defer></script></head><body>${links}${heartTag(id)}${tags}</body>`,
      );
    }
    const { page, goTo } = await openWithTurbo(await visit(t, fixtures, {}), `${shop.origin}/twice-1`);
    await becomes(page, '');
    await goTo(2);
    await becomes(page, '', 2);
    for (const id of [1, 2]) await eventually(t, () => page.evaluate(`wishmeter.count('twice-${id}')`), 1);
  });

  await t.test('the live region and messages survive a page that replaces its body', async (t) => {
    const page = await (await visit(t, fixtures)).open(
      shop.show('/swapped', `<style>div:empty{display:none}</style>${heartTag(1)}${kitTag(service)}`),
    );
    const click = async (page: Page, text: string) => {
      await press(page);
      await page.getByRole('status').filter({ hasText: text }).waitFor();
    };
    await becomes(page, '');
    await click(page, 'Added to the wishlist');
    await page.evaluate('document.body.replaceWith(document.body.cloneNode(true))');
    await becomes(page, 'saved');
    await click(page, 'Removed from the wishlist');
  });
}

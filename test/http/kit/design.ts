// The list as a shop designs it: parts, states, cards, the order; a friend's list; what is gone; axe and layout shifts.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { type BrowserFixtures, eventually, sessionOf, visit } from '../../harness/storefront.js';
import { blockOf } from '../browser/storefront-page.js';
import { eventsOf, faultsOf, heartTag, kitTag, LISTENER, rows } from './shop.js';

const IMAGE = 'https://cdn.shopify.com/shoe.png';
/** What the documentation has a shop reserve. */
const RESERVED = `<style>${blockOf('css', 'wishlist-page { display')}</style>`;

const callback = (answer: string) =>
  `<script>window.wishmeterOptions = { products: async (items) => ${answer} };</script>`;
/** Shoe 1 is cheaper today, shoe 2 sold out, shoe 3 gone, shoe 4 has a compare-at price. */
const TODAY =
  callback(`items.filter(({ productId }) => productId !== '3').map(({ productId, variantId }) => ({
  productId, variantId, price: productId === '1' ? '49.00' : '79.90', compareAt: productId === '4' ? '99.00' : null,
  available: productId !== '2' }))`);

export async function kitDesign(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const open = async (t: Test, path: string, html: string, attributes = '', root = 'lang="en"') => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.route(IMAGE, (route) =>
      route.fulfill({ contentType: 'image/svg+xml', body: '<svg xmlns="http://www.w3.org/2000/svg"/>' }),
    );
    const list = `<main><h1>Wishlist</h1><wishlist-page ${attributes}></wishlist-page></main><footer>Shop</footer>`;
    const meta = '<meta name="viewport" content="width=device-width">';
    const style = '<style>:root { color-scheme: light dark }</style>';
    const page = await visitor.open(
      shop.show(path, `<html ${root}>${meta}${style}${RESERVED}${LISTENER}${html}${list}${kitTag(service)}`),
    );
    const sessionId = await sessionOf(page);
    for (const id of [1, 2, 3, 4]) {
      const names = { productHandle: `shoe-${id}`, productTitle: `Shoe ${id}`, variantTitle: '42 / red' };
      const image = id === 2 ? 'https://elsewhere.example/shoe.png' : IMAGE;
      const about = { price: '79.90', currencyCode: 'EUR', quantity: id, image };
      await app.shop.add({ sessionId }, { productId: `${id}`, variantId: `${id}1`, ...names, ...about });
    }
    await page.reload();
    await rows(page).nth(3).waitFor();
    return { page, visitor, sessionId };
  };
  const row = (page: Page, id: number) => rows(page).filter({ hasText: `Shoe ${id}` });
  const stateOf = (page: Page, id: number) => row(page, id).getAttribute('state');
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

  await t.test('each thing of a row has its part, and a row its states', async (t) => {
    const { page } = await open(t, '/parts-of-rows', TODAY, 'cart="x"');
    const texts = async (id: number, part: string) =>
      (await row(page, id).locator(`[part=${part}]`).allTextContents()).join();
    await eventually(t, () => stateOf(page, 1), 'reduced');
    t.equal(await row(page, 1).getAttribute('part'), 'row reduced');
    t.equal(await texts(1, 'price'), '€49.00');
    t.equal(await row(page, 1).locator('s[part=was]').textContent(), '€79.90');
    t.equal(await texts(1, 'variant'), '42 / red');
    t.equal(await texts(1, 'quantity'), '', 'one needs no number');
    t.equal(await stateOf(page, 2), 'sold-out');
    t.equal(await texts(2, 'note'), 'Sold out');
    t.equal(await texts(2, 'quantity'), 'Quantity: 2');
    t.equal(await stateOf(page, 3), 'unavailable');
    t.equal(await texts(3, 'note'), 'Not available any more');
    t.equal(await row(page, 3).locator('a[href]').count(), 0, 'its page is gone, too');
    t.equal(await texts(4, 'was'), '€99.00', 'the compare-at price');
    for (const [id, buttons] of [1, 0, 0, 1].entries())
      t.equal(await button(page, `Add to cart: Shoe ${id + 1}`).count(), buttons, `cart ${id + 1}`);
  });

  await t.test('a price that comes late moves no focus', async (t) => {
    const late =
      callback(`new Promise((done) => { window.answer = () => done(items.map((item) => ({ ...item, price: '9.00',
      available: true }))) })`);
    const { page } = await open(t, '/late-price', late);
    await button(page, 'Remove: Shoe 2').focus();
    await page.evaluate('answer()');
    await eventually(t, () => stateOf(page, 2), 'reduced');
    const focused = "document.querySelector('wishlist-page').shadowRoot.activeElement?.ariaLabel";
    t.equal(await page.evaluate(focused), 'Remove: Shoe 2');
  });

  await t.test('the documented styles make a grid of cards', async (t) => {
    const { page } = await open(
      t,
      '/cards',
      `<style>${blockOf('css', '::part(row sold-out)')}</style>${TODAY}`,
    );
    await page.setViewportSize({ width: 1440, height: 900 });
    const box = async (id: number, part = '') => {
      const found = await (part ? row(page, id).locator(`[part=${part}]`) : row(page, id)).boundingBox();
      return found as NonNullable<typeof found>;
    };
    const [first, second, picture, title] = [
      await box(4),
      await box(3),
      await box(4, 'picture'),
      await box(4, 'title'),
    ];
    t.equal(first.y, second.y, 'cards stand next to each other');
    t.ok(picture.width > first.width * 0.85, 'a picture fills its card');
    t.ok(Math.abs(picture.height - (picture.width * 4) / 3) < 1);
    t.ok(title.y >= picture.y + picture.height, 'the title is below');
    await eventually(t, () => stateOf(page, 2), 'sold-out');
    const opacity =
      "getComputedStyle(document.querySelector('wishlist-page').shadowRoot.querySelector('[state=sold-out]')).opacity";
    t.equal(await page.evaluate(opacity), '0.7');
  });

  await t.test('the visitor chooses the order', async (t) => {
    const { page } = await open(t, '/sortable', '', 'sortable');
    const order = async () => (await rows(page).locator('[part=title]').allTextContents()).join();
    t.equal(await order(), 'Shoe 4,Shoe 3,Shoe 2,Shoe 1');
    await page.getByLabel('Sort by').selectOption('Oldest');
    t.equal(await order(), 'Shoe 1,Shoe 2,Shoe 3,Shoe 4');
  });

  for (const [name, path, html] of [
    ['a callback that throws', '/throwing', callback("JSON.parse('<html>')")],
    ['a callback that answers nothing', '/void', callback('undefined')],
  ] as const)
    await t.test(`${name} leaves saved prices, and a warning`, async (t) => {
      const { page, visitor } = await open(t, path, html, 'cart="x"');
      await eventually(
        t,
        async () => visitor.warnings.some((text) => /no prices of shoe-4/.test(text)),
        true,
      );
      t.match(await row(page, 1).textContent(), /€79\.90/);
      t.equal(await stateOf(page, 3), '');
    });

  await t.test('one product’s JSON that fails or is gone concerns no other product', async (t) => {
    const html = `<script>window.Shopify = { currency: { active: 'EUR' }, customerPrivacy: {
      analyticsProcessingAllowed: () => true }, loadFeatures: (_, done) => done() };</script>`;
    const json = (id: number) =>
      JSON.stringify({ id, variants: [{ id: id * 10 + 1, price: 4900, available: true }] });
    const { page, visitor } = await open(t, '/partly', html, 'cart="shopify"');
    await visitor.context.route('**/products/shoe-*.js', (route) => {
      const id = Number(/shoe-(\d)/.exec(route.request().url())?.[1]);
      if (id === 2) return route.fulfill({ status: 500, body: 'away' });
      return id === 3 ? route.fulfill({ status: 404, body: '' }) : route.fulfill({ body: json(id) });
    });
    await page.reload();
    await eventually(t, () => stateOf(page, 1), 'reduced');
    await eventually(t, () => stateOf(page, 3), 'unavailable');
    t.match(await row(page, 2).textContent(), /€79\.90/);
    t.ok(visitor.warnings.some((text) => /no prices of shoe-2: 500/.test(text)));
    t.notOk(visitor.warnings.some((text) => /shoe-3/.test(text)));
  });

  await t.test('all go into Shopify’s cart in one request, and one that it refuses stays', async (t) => {
    const { page, visitor, sessionId } = await open(t, '/all', TODAY, 'cart="shopify"');
    await eventually(t, () => stateOf(page, 3), 'unavailable');
    await visitor.context.route('**/cart/add.js', (route) =>
      route.fulfill({ status: /"id":11\b/.test(route.request().postData() ?? '') ? 422 : 200, body: '{}' }),
    );
    await button(page, 'Add all to cart').click();
    await page.getByText('Something went wrong').first().waitFor();
    await eventually(t, () => row(page, 4).count(), 0);
    const sent = (await visitor.sent('/cart/add.js')).map(({ body }) => body.items);
    t.same(
      sent[0],
      [
        { id: 41, quantity: 4 },
        { id: 11, quantity: 1 },
      ],
      'those that are available',
    );
    const left = async () => (await app.shop.items({ sessionId })).map(({ productId }) => productId).join();
    await eventually(t, left, '3,2,1');
    t.match(await eventsOf(page, 'remove'), [{ item: { productId: '4' }, event: 'moveToCart' }]);
    t.match((await app.events({ sessionId })).at(-1), { type: 'moveToCart' });
  });

  await t.test('all go into another cart one after the other; what it refuses stays', async (t) => {
    const { page } = await open(t, '/all-own', TODAY, 'cart="own"');
    await eventually(t, () => stateOf(page, 3), 'unavailable');
    await page.evaluate(`window.carted = []; addEventListener('wishlist:cart', ({ detail }) => {
      detail.promise = new Promise((done, fail) => setTimeout(() => {
        carted.push(detail.item.productId);
        if (detail.item.productId === '1') fail(); else done();
      }));
    })`);
    await button(page, 'Add all to cart').dblclick();
    await eventually(t, () => row(page, 4).count(), 0);
    t.equal(await row(page, 1).count(), 1);
    t.same(await page.evaluate('carted'), ['4', '1'], 'a double click adds nothing twice');
  });

  await t.test('wishmeter.remove books a move to the cart, and share its channel', async (t) => {
    const { page, sessionId } = await open(t, '/methods', '');
    await page.evaluate("wishmeter.remove({ productId: '1', variantId: '11' }, { event: 'moveToCart' })");
    const types = async () => (await app.events({ sessionId })).map(({ type }) => type).at(-1);
    await eventually(t, types, 'moveToCart');
    await page.evaluate("wishmeter.share('Email')");
    t.match((await app.events({ sessionId })).at(-1), { type: 'share', payload: /"channel":"Email"/ });
  });

  await t.test('a friend’s list says so, has hearts, and loads images of IMAGE_HOSTS alone', async (t) => {
    const own = await open(t, '/own-list', '');
    const code = /(\w+)$/.exec(await own.page.evaluate('wishmeter.share()'))?.[1];
    const friend = await visit(t, fixtures, {});
    const images: string[] = [];
    friend.context.on(
      'request',
      (request) => request.resourceType() === 'image' && images.push(request.url()),
    );
    shop.show(
      '/friends-list',
      `<html lang="en">${LISTENER}${TODAY}<wishlist-page></wishlist-page>${kitTag(service)}`,
    );
    const page = await friend.open(`${shop.origin}/friends-list?code=${code}`);
    await page.getByText('A friend’s wishlist').waitFor();
    await page.waitForLoadState('networkidle');
    t.same(new Set(images.filter((url) => url.startsWith('https:'))), new Set([IMAGE]));
    await row(page, 1).getByRole('button', { name: 'Wishlist: Shoe 1' }).click();
    const mine = { sessionId: await sessionOf(page) };
    await eventually(t, async () => (await app.shop.items(mine)).length, 1);
    t.match(
      await app.shop.items(mine),
      [{ productId: '1', price: '49.00', source: 'wishlist' }],
      'at today’s price',
    );
    await button(page, 'Save to my wishlist').click();
    await eventually(t, async () => (await app.shop.items(mine)).length, 4);
    const added = await eventsOf(page, 'add');
    t.equal(added.length, 2, 'one event for all that were missing');
    t.equal(added[1].items.length, 3);
  });

  for (const [name, root] of [
    ['left to right', 'lang="en"'],
    ['right to left', 'lang="ar" dir="rtl"'],
  ] as const)
    await t.test(
      `${name}, at 390 and 1,440 px, light and dark: axe finds nothing, and nothing moves`,
      async (t) => {
        const { page, visitor } = await open(
          t,
          `/axe-${name.length}`,
          TODAY + heartTag(1),
          'cart="x" sortable',
          root,
        );
        await visitor.context.addInitScript(`window.shifts = 0; new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.shifts += entry.value;
      }).observe({ type: 'layout-shift', buffered: true })`);
        for (const width of [390, 1440])
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.emulateMedia({ colorScheme });
            await page.setViewportSize({ width, height: 844 });
            await page.reload();
            await eventually(t, () => stateOf(page, 3), 'unavailable');
            t.equal(await page.evaluate('shifts'), 0, `CLS at ${width}`);
            const excess = 'document.documentElement.scrollWidth - innerWidth';
            t.ok((await page.evaluate<number>(excess)) <= 0, 'nothing is wider than the screen');
            t.same(await faultsOf(page), [], `${colorScheme} ${width}`);
          }
      },
    );
}

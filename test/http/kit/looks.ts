// What a shop may set at the kit's elements, how they look, the keyboard alone, and a service or connection that is away.

import type { Test } from 'tap';
import { storefrontPage } from '../../../bench/demo/storefront.js';
import { type BrowserFixtures, eventually, PUBLISHABLE, sessionOf, visit } from '../../harness/storefront.js';
import {
  becomes,
  eventsOf,
  faultsOf,
  fill,
  heartTag,
  kitTag,
  openKit,
  press,
  pressed,
  rows,
  showKit,
  whyOff,
} from './shop.js';

declare function getComputedStyle(element: unknown): { getPropertyValue(name: string): string };

export async function kitLooks(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;

  await t.test('the attributes match, sort, max and hide-zero change hearts, list and count', async (t) => {
    const body = `<wishlist-count max="2"></wishlist-count><wishlist-count hide-zero></wishlist-count>
      <wishlist-heart product-id="1" variant-id="99" handle="shoe-1" name="Other"></wishlist-heart>
      <wishlist-heart product-id="1" match="product" handle="shoe-1" name="Any"></wishlist-heart>
      <wishlist-page sort="price"></wishlist-page>`;
    const page = await openKit(t, fixtures, '/attributes', body);
    const badge = (at: number) => page.locator('wishlist-count [part=badge]').nth(at);
    await eventually(t, () => badge(0).textContent(), '0');
    t.equal(await badge(1).isVisible(), false);
    const width = async () => (await page.locator('wishlist-count').nth(1).boundingBox())?.width;
    const before = await width();
    const sessionId = await fill(fixtures, page, [1, 2, 3], ['49.90', '9.90', '100.00']);
    await eventually(t, () => badge(0).textContent(), '2+');
    t.equal(await badge(1).isVisible(), true);
    t.equal(await width(), before, 'it keeps its width');
    const order = async () => (await rows(page).locator('a').allTextContents()).join();
    t.equal(await order(), 'Shoe 2,Shoe 1,Shoe 3');
    for (const [sort, titles] of [
      ['name', 'Shoe 1,Shoe 2,Shoe 3'],
      ['oldest', 'Shoe 1,Shoe 2,Shoe 3'],
      ['newest', 'Shoe 3,Shoe 2,Shoe 1'],
    ] as const) {
      await page.evaluate(`document.querySelector('wishlist-page').setAttribute('sort', '${sort}')`);
      t.equal(await order(), titles, sort);
    }
    const button = (name: string) => page.getByRole('button', { name: `Wishlist: ${name}`, exact: true });
    t.equal(await button('Other').getAttribute('aria-pressed'), 'false', 'another variant');
    t.equal(await button('Any').getAttribute('aria-pressed'), 'true');
    await button('Any').click();
    await eventually(t, async () => (await app.shop.items({ sessionId })).length, 2);

    // A server removes what was bought; the page that thanks for the order says so.
    await app.shop.remove({ sessionId }, { productId: '2', variantId: '21' });
    await page.evaluate("wishmeter.refresh('purchase')");
    t.match((await eventsOf(page, 'change')).at(-1), { reason: 'purchase', count: 1 });
    t.equal(await order(), 'Shoe 3');
  });

  await t.test(
    "texts follow the page's language or attributes; icon, parts and variables can be set",
    async (t) => {
      const names = [
        'button',
        'icon',
        'label',
        'badge',
        'row',
        'title',
        'price',
        'remove',
        'cart',
        'share',
        'toast',
      ];
      const spacing = (part: string) => `${1 + names.indexOf(part)}px`;
      const styles = names.map((part) => `::part(${part}) { letter-spacing: ${spacing(part)} }`);
      const body = `<style>${styles.join('')}
        wishlist-heart { --wl-size: 60px; --wl-color: rgb(1, 2, 3); --wl-gap: 5px; --wl-radius: 7px }
      </style>${heartTag(1)}
      <wishlist-heart product-id="4" name="Four" text-label="Merke # vor"><b slot="icon">*</b>Merken</wishlist-heart>
      <wishlist-count></wishlist-count><wishlist-page cart="shopify"></wishlist-page>`;
      const page = await openKit(t, fixtures, '/parts', body);
      const style = (selector: string, property: string) =>
        page
          .locator(selector)
          .first()
          .evaluate((element, name) => getComputedStyle(element).getPropertyValue(name), property);
      for (const [lang, name, empty] of [
        ['de-AT', 'Wunschliste: Shoe 1', 'Deine Wunschliste ist leer'],
        ['fr', 'Liste d’envies : Shoe 1', 'Votre liste d’envies est vide'],
        ['es', 'Lista de deseos: Shoe 1', 'Tu lista de deseos está vacía'],
        ['it', 'Wishlist: Shoe 1', 'Your wishlist is empty'],
      ] as const) {
        await page.evaluate(`document.documentElement.lang = '${lang}'; wishmeter.refresh()`);
        await page.getByText(empty).waitFor();
        t.equal(await page.getByRole('button', { name, exact: true }).count(), 1, lang);
      }
      t.equal(await page.getByRole('button', { name: 'Merke Four vor' }).count(), 1);
      t.equal(await page.getByText('Merken').isVisible(), true);
      t.equal(
        await page.locator('wishlist-heart svg').nth(1).isVisible(),
        false,
        'the slot has another icon',
      );
      await becomes(page, '');
      const painted = await page.evaluate(`(() => {
      const heart = document.querySelector('wishlist-heart').shadowRoot.querySelector('button');
      heart.click();
      return heart.getAttribute('aria-pressed');
    })()`);
      t.equal(painted, 'true', 'before the click’s own task has ended, so in its frame');
      await becomes(page, 'saved');
      await rows(page).first().waitFor();
      t.match(await style('wishlist-heart svg', 'filter'), /drop-shadow/, 'it is seen on photos');
      t.equal(await style('wishlist-heart', 'height'), '60px');
      t.equal(await style('wishlist-heart [part=button]', 'border-radius'), '7px');
      t.equal(await style('wishlist-heart [part=button]', 'gap'), '5px');
      await eventually(t, () => style('wishlist-heart svg', 'fill'), 'rgb(1, 2, 3)');
      await page.getByRole('button', { name: 'Remove: Shoe 1' }).click();
      const check = async (...parts: string[]) => {
        for (const part of parts)
          t.equal(await style(`[part=${part}]`, 'letter-spacing'), spacing(part), `::part(${part})`);
      };
      await check('button', 'icon', 'label', 'badge', 'share', 'toast');
      await page.getByRole('button', { name: 'Undo' }).click();
      await check('row', 'title', 'price', 'remove', 'cart');
    },
  );

  await t.test("axe finds nothing in the demo's shop at 390 px in light and 1,440 px in dark", async (t) => {
    const visitor = await visit(t, fixtures, {});
    const show = (path: string) => shop.show(path, storefrontPage(path, service, PUBLISHABLE) as string);
    const list = show('/wishlist');
    const page = await visitor.open(show('/'));
    const hearts = page.locator('wishlist-heart');
    t.equal(await hearts.count(), 12);
    for (const at of [0, 1, 2]) await hearts.nth(at).click();
    const check = async () => {
      for (const [colorScheme, width] of [
        ['light', 390],
        ['dark', 1440],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 844 });
        const excess = 'document.documentElement.scrollWidth - innerWidth';
        t.ok((await page.evaluate<number>(excess)) <= 0, 'nothing is wider than the screen');
        t.same(await faultsOf(page), [], `${colorScheme} ${width}`);
      }
    };
    await page.locator('wishlist-heart[state=saved]').nth(2).waitFor();
    await check();
    await page.goto(list);
    await rows(page).nth(2).waitFor();
    const clickFirst = (name: RegExp) => page.getByRole('button', { name }).first().click();
    await clickFirst(/Remove/);
    await check();
    await clickFirst(/Add to cart/);
    await eventually(t, () => rows(page).count(), 1);
  });

  await t.test('a picture that is gone leaves a plain area', async (t) => {
    const page = await openKit(t, fixtures, '/no-picture', '<wishlist-page></wishlist-page>');
    await page.getByText('Your wishlist is empty').waitFor();
    const product = { productId: '1', variantId: '11', productHandle: 'shoe-1', productTitle: 'Shoe 1' };
    const item = { ...product, price: '1.00', image: 'https://picture.invalid/1.jpg' };
    await app.shop.add({ sessionId: await sessionOf(page) }, item);
    await page.reload();
    const picture = page.locator('wishlist-page span[part=picture]');
    t.match(await picture.boundingBox(), { width: 80, height: 80 });
  });

  for (const [name, status] of [
    ['does not answer', 0],
    ['answers with an error', 502],
  ] as const)
    await t.test(`a list says that the service ${name}, until it has the list`, async (t) => {
      const visitor = await visit(t, fixtures, {});
      const headers = { 'access-control-allow-origin': '*' };
      let isAway = true;
      await visitor.context.route(/\/(item|share)\//, (route) => {
        if (!isAway) return route.continue();
        return status ? route.fulfill({ status, headers, body: '{}' }) : route.abort();
      });
      const url = shop.show('/list-away', `<wishlist-page></wishlist-page>${kitTag(service)}`);
      for (const [address, empty] of [
        [url, 'Your wishlist is empty'],
        [`${url}?code=0123456789abcdef`, 'This wishlist is empty'],
      ] as const) {
        isAway = true;
        const page = await visitor.open(address);
        const note = page.locator('wishlist-page [part=empty]');
        await note.filter({ hasText: 'Something went wrong' }).waitFor();
        isAway = false;
        await note.filter({ hasText: empty }).waitFor();
      }
    });

  await t.test('clicks are saved after a service was away for 30 s, or the browser offline', async (t) => {
    const visitor = await visit(t, fixtures, {});
    let isAway = true;
    await visitor.context.route(/\/(item|product)\//, (route) => (isAway ? route.abort() : route.continue()));
    await visitor.context.clock.install();
    const page = await visitor.open(showKit(fixtures, '/away', heartTag(1) + heartTag(2)));
    t.equal(await whyOff(page), 'blocked');
    await press(page);
    t.equal(await pressed(page), 'true');
    await page.clock.runFor(30_000);
    t.equal(await pressed(page), 'true');
    t.match((await eventsOf(page, 'error')).at(-1), { code: 'no_answer', willRetry: true });
    isAway = false;
    const stateLater = async () => {
      await page.clock.runFor(10_000);
      return page.locator('wishlist-heart').first().getAttribute('state');
    };
    await eventually(t, stateLater, 'saved');
    await visitor.context.setOffline(true);
    await page.locator('wishlist-heart[why=offline]').first().waitFor();
    // No timer ends from now on: only the browser's event sends the click again.
    await page.clock.pauseAt(Date.now() + 3_600_000);
    const errors = async () => (await eventsOf(page, 'error')).length;
    const before = await errors();
    await press(page, 2);
    await becomes(page, 'saved pending', 2);
    await eventually(t, async () => (await errors()) > before, true);
    await visitor.context.setOffline(false);
    await becomes(page, 'saved', 2);
    t.equal((await app.shop.items({ sessionId: await sessionOf(page) })).length, 2);
  });
}

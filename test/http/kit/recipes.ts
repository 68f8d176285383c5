// The recipes of docs/storefront.md, as they stand there.

import type { Test } from 'tap';
import { type BrowserFixtures, eventually, PUBLISHABLE, sessionOf, visit } from '../../harness/storefront.js';
import { blockOf } from '../browser/storefront-page.js';
import { becomes, fill, heartTag, kitTag, openKit, press, rows } from './shop.js';

export async function kitRecipes(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;

  await t.test('Google Analytics hears of each addition', async (t) => {
    const page = await openKit(t, fixtures, '/ga4', heartTag(1) + blockOf('html', 'dataLayer'));
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    t.match(await page.evaluate('dataLayer.at(-1)'), {
      event: 'add_to_wishlist',
      ecommerce: {
        currency: 'EUR',
        value: 49.9,
        items: [{ item_id: '1', item_name: 'Shoe 1', quantity: 1 }],
      },
    });
  });

  await t.test('a line of the cart is saved for later', async (t) => {
    const line = `<div data-line>${blockOf('html', 'id="later"')}</div>`;
    const page = await openKit(t, fixtures, '/later', line);
    await page.waitForFunction('window.wishmeter?.has');
    await page.locator('#later').click();
    t.equal(await page.locator('[data-line]').count(), 0);
    const sessionId = await sessionOf(page);
    await eventually(t, async () => (await app.shop.items({ sessionId }))[0]?.source, 'cart');
  });

  await t.test('a drawer shows the list', async (t) => {
    const page = await openKit(t, fixtures, '/drawer', heartTag(1) + blockOf('html', 'id="drawer"'));
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    await page.locator('#open').click();
    await rows(page).filter({ hasText: 'Shoe 1' }).waitFor();
    t.ok(await page.getByRole('dialog').getByText('Shoe 1').isVisible());
    await page.getByRole('button', { name: 'Remove: Shoe 1' }).click();
    await page.getByRole('dialog').getByText('Your wishlist is empty').waitFor();
    const undo = page.getByRole('button', { name: 'Undo' });
    await undo.click();
    await rows(page).filter({ hasText: 'Shoe 1' }).waitFor();
  });

  await t.test('the list’s link is sent by WhatsApp', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.route('https://wa.me/**', (route) => route.fulfill({ body: 'WhatsApp' }));
    const html = `<wishlist-page></wishlist-page>${blockOf('html', 'wa.me')}${kitTag(service)}`;
    const page = await visitor.open(shop.show('/whatsapp', html));
    await page.getByText('Your wishlist is empty').waitFor();
    await fill(fixtures, page, [1]);
    const opened = visitor.context.waitForEvent('page');
    await page.locator('#whatsapp').click();
    const tab = await opened;
    await tab.waitForURL(/wa\.me.*wishlist%2Fshare%2F\w+/);
  });

  await t.test('a router says what a page shows, and follows the links of the list', async (t) => {
    const visitor = await visit(t, fixtures);
    const onPage = blockOf('js', 'onPage').replace('export ', '').replace("'/wishlist'", "''");
    const router = `window.went = []; const router = { push: (to) => went.push(to) };`;
    const html = `<script>${router}${onPage}${blockOf('js', 'router.push')}
      onPage({ customer: '', handle: 'shoe-1' });</script><wishlist-page></wishlist-page>${kitTag(service)}`;
    const page = await visitor.open(shop.show('/router', html));
    await page.getByText('Your wishlist is empty').waitFor();
    await eventually(t, () => page.evaluate("wishmeter.count('shoe-1')"), 1);
    await fill(fixtures, page, [1]);
    await rows(page).locator('a').click();
    t.same(await page.evaluate('went'), ['/products/shoe-1?variant=11']);
    const tab = visitor.context.waitForEvent('page');
    await rows(page)
      .locator('a')
      .click({ modifiers: ['ControlOrMeta'] });
    await (await tab).close();
    t.equal(await page.evaluate('went.length'), 1, 'a click that opens a tab does so');
  });

  await t.test('Turbo’s tag stands in the body', async (t) => {
    const html = blockOf('html', '<body>')
      .replaceAll('https://wishmeter.example', service)
      .replaceAll('pk_…', PUBLISHABLE);
    const page = await (await visit(t, fixtures)).open(shop.show('/turbo-tag', html));
    await page.locator('wishlist-heart[state=""]').waitFor();
    t.equal(await page.evaluate("wishmeter.count('red-shoe')"), 1);
  });
}

// The theme's blocks of docs/shopify in a real browser, on a static page with Shopify's objects stubbed.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Liquid } from 'liquidjs';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { startApp } from '../../harness/app.js';
import { SECRET, throughProxy } from '../../harness/app-proxy.js';
import { type BrowserFixtures, sessionOf, type Visitor, visit } from '../../harness/storefront.js';

const PROXY = '/apps/wishmeter';
const CART = '/cart/update.js';
const PRODUCT = {
  id: 1001,
  handle: 'red-shoe',
  title: 'Red </script> "shoe"',
  featured_image: '//cdn.shop.example/red.png',
  variants: [
    { id: 2001, title: '41', price: 4990, compare_at_price: 5990, available: true, featured_image: null },
    { id: 2002, title: '42', price: 5000, compare_at_price: null, available: false, featured_image: null },
  ],
};
/** Of a product without a picture, sold out, and in one variant. */
const PLAIN = {
  ...{ id: 1002, handle: 'plain', title: 'Plain', featured_image: null },
  variants: [
    {
      id: 3001,
      title: 'Default Title',
      price: 1000,
      compare_at_price: null,
      available: false,
      featured_image: null,
    },
  ],
};

/** What Shopify has on every page. The visitor allows analytics where the shop need not ask. */
const SHOPIFY = `<script>
  window.Shopify = { designMode: window.edited, loadFeatures: (features, done) => {
    Shopify.customerPrivacy = { analyticsProcessingAllowed: () => window.allowed !== false };
    done();
  } };
</script>`;

/** Dawn's choice of a variant: it fetches the section anew, sets the variant in both of its forms, and says so. */
const DAWN = `<script>
  document.querySelector('select').onchange = ({ target }) => setTimeout(() => {
    for (const input of document.querySelectorAll('[name=id]')) {
      input.value = target.value;
      input.dispatchEvent(new Event('change', { bubbles: true }));
    }
  }, 50);
</script>`;

// Unknown variables and filters are errors.
const liquid = new Liquid({ strictVariables: true, strictFilters: true });
liquid.registerFilter('sha256', (text) => createHash('sha256').update(String(text)).digest('hex'));
liquid.registerFilter('json', (value) => JSON.stringify(value).replaceAll('<', '\\u003c'));
// Shopify writes an error in place of an image that is not there.
liquid.registerFilter('image_url', (image) => image || 'Liquid error: invalid url input');

/** A block as Shopify renders it. @param title the page's, which differs from the one in `for`'s JSON */
function render(file: string, customerId: string, cartSession: string, product = PRODUCT): string {
  const text = readFileSync(`docs/shopify/${file}`, 'utf8');
  const isCard = file === 'card.liquid';
  const [variant] = product.variants;
  return liquid.parseAndRenderSync(text.replace(/{% (schema|stylesheet) %}[\s\S]*?{% end\1 %}/g, ''), {
    block: { settings: { proxy: PROXY, smart_save: 0 }, shopify_attributes: '' },
    product: {
      ...product,
      ...(isCard && { title: 'Card' }),
      selected_or_first_available_variant: variant,
      has_only_default_variant: product.variants.length === 1,
    },
    customer: customerId === '' ? null : { id: customerId },
    routes: { cart_update_url: '/cart/update' },
    cart: { attributes: { wishlist_session_id: cartSession }, currency: { iso_code: 'EUR' } },
  });
}

export async function shopifyTheme(t: Test, { redis, shop, ...fixtures }: BrowserFixtures): Promise<void> {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET, SHOP_URL: shop.origin } });
  shop.forward(PROXY, app.port, throughProxy(PROXY));
  let cartSession = '';
  const url = shop.show('/products/red-shoe', (customerId) => {
    const options = PRODUCT.variants.map(({ id, title }) => `<option value="${id}">${title}</option>`);
    const form = '<form action="/cart/add"><input type="hidden" name="id" value="2001"></form>';
    return `<meta name="viewport" content="width=device-width"><body>${SHOPIFY}
      <select>${options.join('')}</select>${form}${form}${DAWN}
      <div style="position: relative"><a href="#card"><span style="position: absolute; inset: 0; z-index: 1"></span></a>${render('card.liquid', customerId, cartSession)}</div>
      <form action="/cart"><input type="hidden" name="attributes[wishlist_session_id]"></form>
      ${render('heart.liquid', customerId, cartSession)}${render('wishlist.liquid', customerId, cartSession)}`;
  });
  shop.show(CART, '');

  const heart = (page: Page) => page.getByRole('button', { name: `Wishlist: ${PRODUCT.title}`, exact: true });
  const isWished = async (page: Page) => {
    await page.locator('wishlist-heart[for][state=""], wishlist-heart[for][state="saved"]').waitFor();
    return (await heart(page).getAttribute('aria-pressed')) === 'true';
  };
  const press = async (page: Page) => {
    const before = await heart(page).getAttribute('aria-pressed');
    await heart(page).press('Enter');
    await page.locator(`wishlist-heart[for][state="${before === 'false' ? 'saved' : ''}"]`).waitFor();
  };
  const loggedIn = async (visitor: Visitor, page: Page, customerId: string) => {
    await visitor.login(customerId);
    await page.reload();
  };

  await t.test('Liquid renders every expression of the blocks, and their schemas are JSON', async (t) => {
    t.notMatch(render('card.liquid', '7', ''), /{{|{%/, 'card.liquid');
    const page = await (await visit(t, { redis, shop, ...fixtures })).open(
      shop.show('/card', render('card.liquid', '', '')),
    );
    const box = await page.locator('wishlist-heart').boundingBox();
    t.match(box, { width: 44, height: 44 }, 'a card keeps the room of its heart before the kit is there');
    await page.goto(
      shop.show('/count', `${render('wishlist.liquid', '', '')}<wishlist-count></wishlist-count>`),
    );
    const count = "getComputedStyle(document.querySelector('wishlist-count'))";
    t.same(await page.evaluate(`[${count}.display, ${count}.minWidth !== '0px']`), ['inline-block', true]);
    for (const file of ['wishlist.liquid', 'heart.liquid', 'list.liquid', 'beacon.liquid']) {
      t.notMatch(render(file, '7', ''), /{{|{%/, file);
      const schema = /{% schema %}([\s\S]*){% endschema %}/.exec(
        readFileSync(`docs/shopify/${file}`, 'utf8'),
      );
      t.type(JSON.parse(schema?.[1] ?? '').name, 'string');
    }
  });

  await t.test(
    'a card saves its variant, with compare-at price and stock, and no error as a picture',
    async (t) => {
      const visitor = await visit(t, { redis, shop, ...fixtures });
      const cards = [PRODUCT, PLAIN].map((product) =>
        render('card.liquid', '', '', product as typeof PRODUCT),
      );
      const page = await visitor.open(
        shop.show('/cards', `<body>${SHOPIFY}${cards.join('')}${render('wishlist.liquid', '', '')}`),
      );
      await page.locator('wishlist-heart[state=""]').nth(1).waitFor();
      for (const at of [0, 1]) await page.locator('wishlist-heart button').nth(at).click();
      await page.locator('wishlist-heart[state="saved"]').nth(1).waitFor();
      const shown = { productTitle: 'Card', source: 'collection', currencyCode: 'EUR' };
      t.match(await app.shop.items({ sessionId: await sessionOf(page) }), [
        {
          ...shown,
          productId: '1002',
          variantId: '3001',
          variantTitle: null,
          image: null,
          price: '10.00',
          compareAt: null,
          inventoryAvailable: false,
        },
        {
          ...shown,
          variantId: '2001',
          variantTitle: '41',
          price: '49.90',
          compareAt: '59.90',
          inventoryAvailable: true,
        },
      ]);
    },
  );

  await t.test(
    "a theme's heart keeps a guest's item through a login, and shows nothing of it after the logout",
    async (t) => {
      cartSession = '';
      const visitor = await visit(t, { redis, shop, ...fixtures });
      const page = await visitor.open(url);
      t.equal(await isWished(page), false);
      const guest = await sessionOf(page);
      t.equal(await page.evaluate("wishmeter.count('red-shoe')"), 1);
      await press(page);
      const names = { productHandle: 'red-shoe', productTitle: PRODUCT.title, variantTitle: '41' };
      const shown = { ...names, image: 'http://cdn.shop.example/red.png', inventoryAvailable: true };
      const prices = { price: '49.90', compareAt: '59.90', currencyCode: 'EUR' };
      const expected = {
        productId: '1001',
        variantId: '2001',
        ...shown,
        ...prices,
        quantity: 1,
        source: 'pdp',
      };
      t.match(await app.shop.items({ sessionId: guest }), [expected]);
      await page.locator('select').selectOption('42');
      await page.locator('wishlist-heart[for][state=""]').waitFor();
      await page.locator('select').selectOption('41');
      await page.locator('wishlist-heart[for][state="saved"]').waitFor();
      // The card's heart stands for every variant, and above the card's link.
      const card = page.locator('wishlist-heart[match]');
      for (const state of ['', 'saved']) {
        await card.click();
        await page.locator(`wishlist-heart[for][state="${state}"]`).waitFor();
      }
      t.match(await app.shop.items({ sessionId: guest }), [{ variantId: '2001', source: 'collection' }]);

      const field = page.locator('[name="attributes[wishlist_session_id]"]');
      t.equal(await field.inputValue(), guest);
      t.match(await visitor.sent(CART), [
        { path: CART, body: { attributes: { wishlist_session_id: guest } } },
      ]);
      cartSession = guest;

      const linked = async () =>
        (await visitor.sent(`${PROXY}/item/remove`)).filter(({ body }) => body.productId === 'login');
      await loggedIn(visitor, page, '7');
      t.equal(await isWished(page), true, "the customer has the guest's item");
      t.equal((await linked()).length, 1, 'one request linked them');
      await page.reload();
      t.equal(await isWished(page), true);
      t.equal((await linked()).length, 1, 'and is not sent again');
      t.equal((await visitor.sent(CART)).length, 1, 'nor is the cart told what it knows');

      await loggedIn(visitor, page, '');
      t.equal(await isWished(page), false, 'the next person meets an empty wishlist');
      const next = await sessionOf(page);
      t.not(next, guest);
      t.equal(await field.inputValue(), next);
      t.match((await visitor.sent(CART))[1], { body: { attributes: { wishlist_session_id: next } } });

      await loggedIn(visitor, page, '7');
      t.equal(await isWished(page), true);
      await press(page);
      t.same(await app.shop.items({ sessionId: guest }), [], 'pressed again, it is off the list');
    },
  );
}

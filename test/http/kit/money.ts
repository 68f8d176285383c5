// Amounts and currencies: what a heart reads from a shop's texts, and how saved prices and today's are shown and sorted.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { type BrowserFixtures, eventually, sessionOf, visit } from '../../harness/storefront.js';
import { blockOf } from '../browser/storefront-page.js';
import { becomes, kitTag, openKit, press, ROOM, rows, whyOff } from './shop.js';

/** What a shop shows, in which currency, and what is saved; null is refused. */
const AMOUNTS: readonly (readonly [shown: string, currency: string, price: string | null])[] = [
  ['49.90', 'EUR', '49.90'],
  ['49.9', 'EUR', '49.90'],
  ['1299', 'EUR', '1299.00'],
  ['49,90', 'EUR', '49.90'],
  ['1,299.00', 'USD', '1299.00'],
  ['1.299,00', 'EUR', '1299.00'],
  ['1,980', 'JPY', '1980.00'],
  ['1.980', 'EUR', '1980.00'],
  ['¥1,234,567', 'JPY', '1234567.00'],
  ['$49.90', 'USD', '49.90'],
  ['1 299,00 €', 'EUR', '1299.00'],
  ['1\u202f299,00\u00a0€', 'EUR', '1299.00'],
  ["1'299.00", 'CHF', '1299.00'],
  ['CHF 1’299.–', 'CHF', '1299.00'],
  ['49,-', 'EUR', '49.00'],
  ['Rs. 1,29,900.50', 'INR', '129900.50'],
  ['1.500', 'KWD', '1.50'],
  ['1,234.500', 'KWD', '1234.50'],
  ['0.990', 'EUR', '0.99'],
  ['1299.0000', 'EUR', '1299.00'],
  ['', 'EUR', '0.00'],
  ['-5.00', 'EUR', null],
  ['49.90 - 59.90', 'EUR', null],
  ['5 99', 'EUR', null],
  ['$.99', 'USD', null],
  ['12,34.56', 'EUR', null],
  ['1e3', 'EUR', null],
  ['on request', 'EUR', null],
];

export async function kitMoney(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const escaped = (text: string) => text.replaceAll('"', '&quot;');
  const priced = (price: string, currency: string, id = 1) =>
    `<wishlist-heart product-id="${id}" name="Shoe" price="${escaped(price)}" currency="${currency}"></wishlist-heart>`;

  await t.test('a heart reads an amount as the shop shows it, or refuses it with a warning', async (t) => {
    const visitor = await visit(t, fixtures);
    const hearts = AMOUNTS.map(([shown, currency], id) => priced(shown, currency, id));
    const page = await visitor.open(shop.show('/amounts', hearts.join('') + kitTag(service)));
    await page.locator('wishlist-heart[state]').first().waitFor();
    const read = await page.evaluate(
      "[...document.querySelectorAll('wishlist-heart')].map((heart) => heart.item().price)",
    );
    t.same(
      read,
      AMOUNTS.map(([, , price]) => price),
    );
    const refused = AMOUNTS.filter(([, , price]) => price === null);
    for (const [shown] of refused)
      t.ok(
        visitor.warnings.some((warning) => warning.includes(`"${shown}"`)),
        shown,
      );
  });

  await t.test(
    'a heart whose price can’t be read saves nothing, nor does wishmeter.add, and the next heart works',
    async (t) => {
      const page = await openKit(t, fixtures, '/refused', priced('ask us', 'EUR') + priced('5', 'EUR', 2));
      t.equal(await whyOff(page), 'price');
      await press(page);
      await press(page, 2);
      await becomes(page, 'saved', 2);
      t.match(await app.shop.items({ sessionId: await sessionOf(page) }), [
        { productId: '2', price: '5.00' },
      ]);
      const add = (price: string) =>
        page.evaluate(
          `wishmeter.add({ productId: '3', productHandle: 'three', productTitle: 'Three', price: '${price}' })`,
        );
      t.equal(await add('ask us'), false);
      t.equal(await add('$1,299.00'), true);
      const sessionId = await sessionOf(page);
      await eventually(t, async () => (await app.shop.items({ sessionId }))[0]?.price, '1299.00');
    },
  );

  await t.test('a heart saves what the shop says of the chosen variant', async (t) => {
    const radios = `<input type="radio" name="size" value="3001" data-price="10,00" data-variant-name="S" checked>
      <input type="radio" name="size" value="3002" data-price="12,50" data-variant-name="M" data-available="false">
      <wishlist-heart product-id="1003" name="Shirt" currency="EUR" variant-from="[name=size]"></wishlist-heart>`;
    const page = await openKit(
      t,
      fixtures,
      '/chosen',
      blockOf('html', 'id="size"') + radios + blockOf('html', 'id="shoe"'),
    );
    await becomes(page, '', 1001);
    await page.locator('#size').selectOption('42');
    await page.locator('[name=size]').nth(1).check();
    const read = await page.evaluate(
      "[...document.querySelectorAll('wishlist-heart')].map((heart) => heart.item())",
    );
    t.match(read, [
      {
        productTitle: 'Red shoe',
        variantId: '2002',
        variantTitle: '42',
        price: '54.90',
        inventoryAvailable: true,
      },
      {
        productTitle: 'Shirt',
        variantId: '3002',
        variantTitle: 'M',
        price: '12.50',
        inventoryAvailable: false,
      },
      { variantId: '2002', variantTitle: '42', price: '49.90', compareAt: '59.90', currencyCode: 'EUR' },
    ]);
    await press(page, 1001);
    await becomes(page, 'saved', 1001);
    t.match(await app.shop.items({ sessionId: await sessionOf(page) }), [
      { variantId: '2002', price: '54.90' },
    ]);
  });

  await t.test(
    'a wrong for or variant-from, and a product without variants, stop no other heart',
    async (t) => {
      const product = JSON.stringify({ id: 7, handle: 'seven', title: 'Seven', variants: [] });
      const wrong = `<script type="application/json" id="none">${product}</script><script type="application/json" id="bad">{</script>
      <wishlist-heart for="#none"></wishlist-heart>${priced('5', 'EUR', 3).replace(' name', ' for="#bad" variant-from="[" name')}`;
      const visitor = await visit(t, fixtures);
      const page = await visitor.open(shop.show('/wrong', wrong + priced('5', 'EUR', 2) + kitTag(service)));
      for (const id of [2, 3]) {
        await press(page, id);
        await becomes(page, 'saved', id);
      }
      t.equal(await page.evaluate("document.querySelector('wishlist-heart').item().productTitle"), 'Seven');
      t.match([...visitor.warnings].sort(), [/"#bad": /, /"\[": /]);
    },
  );

  const shopify = (currency: string) =>
    `<script>window.Shopify = { currency: { active: '${currency}' }, customerPrivacy: { analyticsProcessingAllowed: () => true }, loadFeatures: (_, done) => done() };</script>`;
  const save = async (page: Page, id: number, price: string, currencyCode: string, more = {}) => {
    const names = {
      productId: `${id}`,
      variantId: `${id}1`,
      productHandle: `shoe-${id}`,
      productTitle: `Shoe ${id}`,
    };
    await app.shop.add({ sessionId: await sessionOf(page) }, { ...names, price, currencyCode, ...more });
  };
  const priceOf = async (page: Page, id: number) => {
    const row = rows(page).filter({ hasText: `Shoe ${id}` });
    return (await row.locator('[part=prices]').textContent())?.trim();
  };

  await t.test('today’s price has the currency of today, and is compared with none of another', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.route('**/products/*.js', (route) => {
      const id = Number(/shoe-(\d)/.exec(route.request().url())?.[1]);
      const variants = [
        { id: id * 10 + 1, price: 1999, compare_at_price: id === 3 ? 2999 : null, available: true },
      ];
      return route.fulfill({ json: { id, variants } });
    });
    const page = await visitor.open(
      shop.show(
        '/usd',
        `<html lang="en">${shopify('USD')}${ROOM}<wishlist-page></wishlist-page>${kitTag(service)}`,
      ),
    );
    await save(page, 1, '3000.00', 'JPY');
    await save(page, 2, '24.00', 'USD');
    await save(page, 3, '24.00', 'USD');
    await page.reload();
    await eventually(t, () => priceOf(page, 1), '$19.99');
    t.match(await priceOf(page, 2), /^\$19\.99\s+was\s+\$24\.00$/);
    t.match(
      await priceOf(page, 3),
      /^\$19\.99\s+was\s+\$29\.99$/,
      'the compare-at price, if it is the higher one',
    );
  });

  await t.test('the callback may name a currency, and prices are sorted within one', async (t) => {
    const callback = `<script>window.wishmeterOptions = { products: async (items) => items.map(({ productId, variantId }) =>
      ({ productId, variantId, price: '1.234,50', currency: productId === '1' ? 'USD' : undefined, available: true })) };</script>`;
    const body = `<html lang="en">${ROOM}${callback}<wishlist-page sort="price"></wishlist-page>`;
    const page = await (await visit(t, fixtures)).open(shop.show('/callback', body + kitTag(service)));
    await save(page, 1, '5000.00', 'EUR');
    await save(page, 2, '4000.00', 'JPY');
    await save(page, 3, '2000.00', 'EUR');
    await page.reload();
    await eventually(t, () => priceOf(page, 1), '$1,234.50');
    t.match(await priceOf(page, 3), /^€1,234\.50\s+was\s+€2,000\.00$/, 'by default it is the saved one');
    const titles = await rows(page).locator('a').allTextContents();
    t.same(titles, ['Shoe 3', 'Shoe 1', 'Shoe 2'], 'the currency of the newest item comes first');
  });
}

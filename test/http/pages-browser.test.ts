// Pages in a real browser: that of a shared wishlist, and Shopify's with the theme's blocks of docs/shopify.

import t from 'tap';
import { inChromium } from '../harness/storefront.js';
import { sharePage } from './browser/share-page.js';
import { shopifyTheme } from './browser/shopify-theme.js';

await inChromium(t, async (t, fixtures) => {
  await t.test('the page of a shared wishlist', (t) => sharePage(t, fixtures));
  await t.test("the theme's blocks", (t) => shopifyTheme(t, fixtures));
});

// What browsers do with us: the beacon on pages of another origin, the page of a shared wishlist, Shopify's pages with
// the theme's blocks of docs/shopify, and the documentation. One browser for all of browser/*.ts.

import t from 'tap';
import { inChromium } from '../harness/storefront.js';
import { beaconConsent } from './browser/beacon-consent.js';
import { beaconLoading } from './browser/beacon-loading.js';
import { beaconSessions } from './browser/beacon-sessions.js';
import { beaconVisits } from './browser/beacon-visits.js';
import { docsPage } from './browser/docs-page.js';
import { sharePage } from './browser/share-page.js';
import { shopifyTheme } from './browser/shopify-theme.js';
import { storefrontPage } from './browser/storefront-page.js';

await inChromium(t, async (t, fixtures) => {
  await t.test('the beacon: visits', (t) => beaconVisits(t, fixtures));
  await t.test('the beacon: consent, robots, and pages that it leaves alone', (t) =>
    beaconConsent(t, fixtures),
  );
  await t.test('the beacon: ways to load it', (t) => beaconLoading(t, fixtures));
  await t.test('the beacon: sessions and logins', (t) => beaconSessions(t, fixtures));
  await t.test('the page of a shared wishlist', (t) => sharePage(t, fixtures));
  await t.test("the theme's blocks", (t) => shopifyTheme(t, fixtures));
  await t.test('docs/storefront.md', (t) => storefrontPage(t, fixtures));
  await t.test('/docs', (t) => docsPage(t, fixtures));
});

// What browsers do with beacon, kit, share page, theme blocks and docs. One browser for all of browser/*.ts and kit/*.ts.

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
import { kitDesign } from './kit/design.js';
import { kitHearts } from './kit/hearts.js';
import { kitLimits } from './kit/limits.js';
import { kitLooks } from './kit/looks.js';
import { kitMoney } from './kit/money.js';
import { kitNavigation } from './kit/navigation.js';
import { kitPages } from './kit/pages.js';
import { kitPopular } from './kit/popular.js';
import { kitRecipes } from './kit/recipes.js';
import { kitSecondScript } from './kit/second-script.js';
import { kitSessions } from './kit/sessions.js';
import { kitWishes } from './kit/wishes.js';
import { kitWords } from './kit/words.js';

const PARTS = {
  'the beacon: visits': beaconVisits,
  'the beacon: consent, robots, and pages that it leaves alone': beaconConsent,
  'the beacon: ways to load it': beaconLoading,
  'the beacon: sessions and logins': beaconSessions,
  'the kit: design of the list': kitDesign,
  'the kit: hearts': kitHearts,
  'the kit: wishes': kitWishes,
  'the kit: limits': kitLimits,
  'the kit: sessions': kitSessions,
  'the kit: navigation': kitNavigation,
  'the kit: looks': kitLooks,
  'the kit: money': kitMoney,
  'the kit: pages': kitPages,
  'the kit: recipes': kitRecipes,
  'the kit: words': kitWords,
  'the kit: what others saved': kitPopular,
  'the kit: its second script': kitSecondScript,
  'the page of a shared wishlist': sharePage,
  "the theme's blocks": shopifyTheme,
  'docs/storefront.md': storefrontPage,
  '/docs': docsPage,
};
await inChromium(t, async (t, fixtures) => {
  for (const [name, part] of Object.entries(PARTS)) await t.test(name, (t) => part(t, fixtures));
});

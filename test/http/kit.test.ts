// The storefront kit in a browser, promise by promise: hearts, count, list page, queue, tabs, logins, Smart Save, and what
// axe finds. One browser for all of kit/*.ts.

import t from 'tap';
import { inChromium } from '../harness/storefront.js';
import { kitHearts } from './kit/hearts.js';
import { kitLooks } from './kit/looks.js';
import { kitPages } from './kit/pages.js';

await inChromium(t, async (t, fixtures) => {
  await t.test('hearts', (t) => kitHearts(t, fixtures));
  await t.test('looks', (t) => kitLooks(t, fixtures));
  await t.test('pages', (t) => kitPages(t, fixtures));
});

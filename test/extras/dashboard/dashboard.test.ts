// The dashboard, over HTTP and in a browser, above one small shop: one ClickHouse, one Redis and one Chromium for all parts.

import t, { type Test } from 'tap';
import { findChromium, launchChromium } from '../../harness/chromium.js';
import { needs } from '../../harness/needs.js';
import { startTestRedis } from '../../harness/redis.js';
import type { PageFixtures } from './browser.js';
import { dashboardOfShop, type Fixtures } from './fixtures.js';
import { overHttp } from './http.js';
import { allOthers, looks, shares } from './looks.js';
import { overview } from './overview.js';
import { panelsInBrowser, panelsOverHttp } from './panels.js';
import { productOverHttp, productPage } from './product.js';
import { receiversOverHttp, receiversPage } from './receivers.js';
import { weeklyReport } from './report.js';
import { clickhouseThatHangs, silence } from './silence.js';

const chromium = findChromium();
const inChromium = needs(chromium.missing);
const browser = chromium.missing ? undefined : await launchChromium(t, chromium.shell);
const fixtures: Fixtures = { ...(await dashboardOfShop(t)), redis: await startTestRedis(t) };

const part = (name: string, run: (t: Test, fixtures: Fixtures) => Promise<void>) =>
  t.test(name, (t) => run(t, fixtures));
const page = (name: string, run: (t: Test, fixtures: PageFixtures) => Promise<void>) =>
  t.test(name, inChromium, async (t) => {
    if (browser !== undefined) await run(t, { ...fixtures, browser });
  });

// In this order: the last ones add to the shop.
await part('logins, panels and CSV', overHttp);
await part('receivers', receiversOverHttp);
await part('a ClickHouse that hangs', clickhouseThatHangs);
await page('the overview', overview);
await page('the page of receivers', receiversPage);
await page('while ClickHouse does not answer', silence);
await part('a product', productOverHttp);
await page('the page of a product', productPage);
await part('panels counted by hand', panelsOverHttp);
await part('the report', weeklyReport);
await page('panels in a browser', panelsInBrowser);
await page('looks', looks);
await part('more words than a panel shows', shares);
await page('all others are one bar', allOthers);

// Whose session is it? The beacon through the app proxy: visits come along at the login, and the next person begins anew.

import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { startApp } from '../../harness/app.js';
import { SECRET, throughProxy } from '../../harness/app-proxy.js';
import {
  type BrowserFixtures,
  countOf,
  eventually,
  STORED,
  sessionOf,
  tag,
  type Visitor,
  visit,
} from '../../harness/storefront.js';

const PROXY = '/apps/wishmeter';

export async function beaconSessions(t: Test, { redis, shop, ...fixtures }: BrowserFixtures): Promise<void> {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET, SHOP_URL: shop.origin } });
  shop.forward(PROXY, app.port, throughProxy(PROXY));
  // No key: the signature is the credential. What stands for a customer is never the id.
  const shoe = shop.show('/shoe', (customerId) =>
    tag(PROXY, 'shoe', '', `defer data-customer=" ${customerId && `customer ${customerId}x`}\n"`),
  );
  const start = (t: Test) => visit(t, { redis, shop, ...fixtures });

  const count = (page: Page) => page.evaluate("wishmeter.count('shoe')");
  const shownTo = async (visitor: Visitor, customerId: string, page?: Page) => {
    await visitor.login(customerId);
    if (page === undefined) return visitor.open(shoe);
    await page.goto(shoe);
    return page;
  };

  await t.test('a login keeps the session; a logout, or another customer, begins one', async (t) => {
    const visitor = await start(t);
    const page = await shownTo(visitor, '');
    const guest = await sessionOf(page);
    t.equal(await count(page), 1);
    await shownTo(visitor, '7', page);
    t.equal(await sessionOf(page), guest);
    t.equal(await count(page), 2, "the guest's visit came along");
    t.equal(await page.evaluate(STORED), `${guest} customer 7x`);
    const { path } = (await visitor.sent()).at(-1) ?? {};
    t.equal(path, `${PROXY}/product/visit/list`, 'no key is needed');

    await shownTo(visitor, '', page);
    const next = await sessionOf(page);
    t.not(next, guest);
    t.equal(await page.evaluate(STORED), next);
    t.equal(await count(page), 1, 'whose visits begin anew');
    t.equal(await countOf(app, guest, 'shoe'), 2, 'visits go on under the old id, for who knows it');
    await shownTo(visitor, '8', page);
    t.equal(await sessionOf(page), next);
    await shownTo(visitor, '7', page);
    t.not(await sessionOf(page), next, 'another customer, with no page in between');
    t.equal(await count(page), 3);
  });

  await t.test('a tab from before the logout goes on with the new session', async (t) => {
    const visitor = await start(t);
    const stale = await shownTo(visitor, '20');
    const before = await sessionOf(stale);
    const page = await shownTo(visitor, '');
    const next = await sessionOf(page);
    t.not(next, before);
    await eventually(t, () => sessionOf(stale), next);
    t.equal(await stale.evaluate("wishmeter.visit('shoe')"), 2);
    await page.reload();
    t.equal(await sessionOf(page), next);
  });

  await t.test("forget() begins a session in every tab; the page stays the customer's", async (t) => {
    const visitor = await start(t);
    const page = await shownTo(visitor, '30');
    const tab = await visitor.open(shoe);
    const before = await sessionOf(page);
    await tab.evaluate("heard = []; addEventListener('storage', (event) => heard.push(event.newValue))");
    const next = await page.evaluate<string>('wishmeter.forget()');
    t.not(next, before);
    t.equal(await sessionOf(page), next);
    // Tabs are processes, and hear of each other's storage a moment later.
    await eventually(t, () => tab.evaluate('heard.length > 0'), true);
    t.equal(await sessionOf(tab), next);
    t.match(await tab.evaluate('heard'), [`${next} customer 30x`], 'with no moment of no session in between');
    t.equal(await page.evaluate(STORED), `${next} customer 30x`);
    await shownTo(visitor, '', page);
    t.not(await sessionOf(page), next, 'so a logout ends it');
  });

  await t.test('beacon.js replaces a retired session once, and sends the refused visit again', async (t) => {
    const visitor = await start(t);
    const page = await shownTo(visitor, '');
    const tab = await visitor.open(shoe);
    const sessionId = await sessionOf(page);
    t.equal(await count(page), 2);
    for (const customerId of ['50', '51']) await app.shop.login({ customerId, sessionId });
    await app.shop.erase({ customerId: '51' });
    const before = (await visitor.sent()).length;
    t.equal(await page.evaluate("wishmeter.visit('shoe')"), 1);
    const next = await sessionOf(page);
    t.not(next, sessionId);
    t.equal(await page.evaluate(STORED), next);
    t.same(
      (await visitor.sent()).slice(before).map(({ status, body }) => [status, body.identity.sessionId]),
      [
        [403, sessionId],
        [200, next],
      ],
    );
    t.equal(await tab.evaluate("wishmeter.visit('shoe')"), 2, 'another tab goes on with the new one');
    t.equal(await countOf(app, next, 'shoe'), 2);

    await page.route('**/product/visit?*', (route) =>
      route.fulfill({ status: 403, json: { error: 'x', code: 'session_retired' } }),
    );
    const sent = (await visitor.sent()).length;
    await page.evaluate("wishmeter.visit('shoe')");
    t.equal((await visitor.sent()).length, sent + 1, 'it is not tried again and again');
    await page.unrouteAll();
  });

  await t.test('a page that does not say who is logged in leaves the session alone', async (t) => {
    const visitor = await start(t);
    const page = await shownTo(visitor, '40');
    t.equal(await count(page), 1);
    const stored = await page.evaluate(STORED);
    await page.goto(shop.show('/silent', tag(PROXY, 'shoe', '')));
    t.equal(await count(page), 2);
    t.equal(await page.evaluate(STORED), stored);

    await page.goto(shop.show('/home', tag(PROXY, '', '', 'defer data-customer=""')));
    const isNew = () => page.evaluate<boolean>(`![null, ${JSON.stringify(stored)}].includes(${STORED})`);
    await eventually(t, isNew, true);
    const visits = (await visitor.sent()).filter(({ path }) => !path.includes('/list'));
    t.equal(visits.length, 2, 'and shows no product');
  });
}

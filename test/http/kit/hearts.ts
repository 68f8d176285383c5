// Hearts: states, one question for all of a page, clicks that are never lost, tabs, and what the script leaves alone.

import type { Test } from 'tap';
import { openUndriven } from '../../harness/chromium.js';
import {
  type BrowserFixtures,
  countOf,
  eventually,
  sessionOf,
  tag,
  type Visitor,
  visit,
} from '../../harness/storefront.js';
import { becomes, eventsOf, heartTag, kitTag, press, pressed, SHOE, showKit, whyOff } from './shop.js';

export async function kitHearts(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const url = showKit(fixtures, '/kit', `<body>${heartTag(1)}${heartTag(2)}`, SHOE);
  /** Something before the service answers requests for items itself, until what this gives is called. */
  const answerItself = async ({ context }: Visitor, status: number, body: string) => {
    let isAway = true;
    const headers = { 'access-control-allow-origin': '*', 'content-type': 'text/html', 'retry-after': '1' };
    await context.route(`${service}/item/**`, (route) =>
      isAway ? route.fulfill({ status, headers, body }) : route.continue(),
    );
    return () => {
      isAway = false;
    };
  };
  const itemsOf = async (sessionId: string) =>
    (await app.shop.items({ sessionId })).map(({ productId }) => productId);

  await t.test(
    'a heart saves with one click and removes with the next, and shows the saved state after a reload',
    async (t) => {
      const visitor = await visit(t, fixtures);
      const page = await visitor.open(url);
      await becomes(page, '');
      const session = await sessionOf(page);
      t.equal(await page.evaluate("wishmeter.count('shoe-1')"), 1);
      await press(page);
      t.equal(await pressed(page), 'true', 'painted before it is answered');
      await becomes(page, 'saved');
      const ids = { productId: '1', variantId: '11' };
      const shown = { productHandle: 'shoe-1', productTitle: 'Shoe 1', price: '49.90', currencyCode: 'EUR' };
      t.match(await app.shop.items({ sessionId: session }), [{ ...ids, ...shown, source: 'pdp' }]);
      t.match(await eventsOf(page, 'change'), [{ reason: 'click', items: [ids] }]);
      await page.reload();
      await becomes(page, 'saved');
      t.equal(await pressed(page, 2), 'false');
      await press(page);
      await becomes(page, '');
      t.same(await itemsOf(session), []);
      await eventually(t, () => countOf(app, session, 'shoe-1'), 0);
      t.equal((await visitor.sent('/item/check')).length, 2, 'one question for all hearts of a page');
      t.same(visitor.warnings, []);
    },
  );

  await t.test(
    "a service that hangs doesn't delay the page, and a click is sent once it answers, also from another page",
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.route(`${service}/**`, () => {});
      const page = await visitor.open(shop.show('/elsewhere', 'elsewhere'));
      await page.goto(url, { waitUntil: 'domcontentloaded' });
      t.equal(await page.evaluate('document.readyState'), 'interactive', 'the script itself hangs');
      await visitor.context.unroute(`${service}/**`);
      const back = await answerItself(visitor, 503, '{"code":"unavailable"}');
      await page.reload();
      await press(page);
      await press(page, 2);
      await press(page, 2);
      t.equal(await pressed(page), 'true');
      t.equal(await pressed(page, 2), 'false', 'the last click wins');
      await page.locator('wishlist-heart[state~="pending"]').first().waitFor();
      const isSent = async () =>
        (await visitor.sent('/item/add')).some(({ body }) => body?.productId === '1');
      await eventually(t, isSent, true);
      await page.goto(shop.show('/elsewhere', 'elsewhere'));
      back();
      await page.goto(showKit(fixtures, '/other-kit', heartTag(1), SHOE));
      await becomes(page, 'saved');
      t.same(await itemsOf(await sessionOf(page)), ['1'], 'the wish outlives the page');
      const keys = (await visitor.sent('/item/add'))
        .filter(({ body }) => body?.productId === '1')
        .map(({ key }) => key);
      t.ok(keys.length > 1 && keys[0]);
      t.equal(new Set(keys).size, 1, 'one Idempotency-Key a click');
    },
  );

  await t.test(
    "an HTML page in place of the service's answer empties no list and loses no click",
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      const body = `${heartTag(1)}${heartTag(2)}<wishlist-count></wishlist-count>`;
      const page = await visitor.open(showKit(fixtures, '/proxy-page', body, SHOE));
      await becomes(page, '');
      await press(page);
      await becomes(page, 'saved');
      const back = await answerItself(visitor, 200, '<!doctype html><title>Enter the password</title>');
      await page.evaluate('wishmeter.refresh()');
      t.equal(await pressed(page), 'true');
      await press(page, 2);
      await page.waitForFunction("seen.some(([, detail]) => detail?.code === 'no_answer')");
      await page.locator('wishlist-heart[product-id="2"][state~="pending"]').waitFor();
      back();
      await becomes(page, 'saved', 2);
      t.same((await itemsOf(await sessionOf(page))).sort(), ['1', '2']);
    },
  );

  await t.test(
    'two tabs show the same state, also a page that comes back from the back/forward cache',
    async (t) => {
      const visitor = await visit(t, { ...fixtures, browser: await fixtures.withBfcache(t) });
      const [one, two] = [await visitor.open(url), await visitor.open(url)];
      await becomes(one, '');
      await becomes(two, '');
      await press(one);
      await becomes(two, 'saved');
      t.match(await eventsOf(two, 'change'), [{ reason: 'other-tab' }]);
      await one.evaluate('window.isSame = true');
      await one.goto(shop.show('/elsewhere', 'elsewhere'));
      await press(two);
      await becomes(two, '');
      await one.goBack({ waitUntil: 'commit' });
      await one.waitForFunction('window.isSame');
      t.equal(await one.evaluate('window.isSame'), true, 'it comes from bfcache');
      await becomes(one, '');
      await press(two);
      await becomes(two, 'saved');
      await one.evaluate('localStorage.clear()');
      await becomes(two, '');
    },
  );

  await t.test('clicks in two tabs at the same moment are all saved', async (t) => {
    const visitor = await visit(t, fixtures);
    const shown = showKit(fixtures, '/both', Array.from({ length: 16 }, (_, id) => heartTag(id)).join(''));
    const tabs = [await visitor.open(shown), await visitor.open(shown)];
    for (const tab of tabs) await becomes(tab, '', 15);
    const click = (rest: number) => `for (const heart of document.querySelectorAll('wishlist-heart'))
      if (heart.getAttribute('product-id') % 2 === ${rest}) heart.shadowRoot.querySelector('button').click()`;
    await Promise.all(tabs.map((tab, rest) => tab.evaluate(click(rest))));
    for (const tab of tabs) await eventually(t, async () => (await itemsOf(await sessionOf(tab))).length, 16);
  });

  await t.test('200 hearts need one request, and hearts that are added later one more', async (t) => {
    const visitor = await visit(t, fixtures);
    const many = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => heartTag(from + i)).join('');
    const page = await visitor.open(showKit(fixtures, '/many', `<main>${many(0, 200)}</main>`));
    await becomes(page, '', 199);
    t.equal((await visitor.sent('/item/check')).length, 1);
    await app.shop.add({ sessionId: await sessionOf(page) }, { productId: '250', variantId: '2501' });
    await page.evaluate(
      `document.querySelector('main').insertAdjacentHTML('beforeend', ${JSON.stringify(many(200, 300))})`,
    );
    await becomes(page, 'saved', 250);
    const [, second] = await visitor.sent('/item/check');
    t.equal(second?.body.products.length, 100, 'those that are new');
    await press(page, 7);
    await becomes(page, 'saved', 7);
  });

  await t.test(
    'nothing is sent or stored before consent, and withdrawing it removes everything',
    async (t) => {
      const visitor = await visit(t, fixtures);
      const asking = 'data-consent data-product-handle="late"';
      const page = await visitor.open(showKit(fixtures, '/consent', heartTag(1), asking));
      t.equal(await whyOff(page), 'consent');
      await press(page);
      t.same(await visitor.sent(service), []);
      t.same(
        await page.evaluate('Object.keys(localStorage).filter((name) => /session|wish_/.test(name))'),
        [],
      );
      await page.evaluate('wishmeter.consent(true)');
      await becomes(page, '');
      t.equal(await page.evaluate("wishmeter.count('late')"), 1);
      await press(page);
      await becomes(page, 'saved');
      await page.evaluate('wishmeter.consent(false)');
      await becomes(page, 'off');
      t.equal(await pressed(page), 'false');
    },
  );

  await t.test(
    'under Global Privacy Control a click begins a session for the wishlist only, and nothing is counted',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      await visitor.context.addInitScript(
        "Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })",
      );
      const page = await visitor.open(url);
      await becomes(page, '');
      t.same(await visitor.sent(service), []);
      await press(page);
      await becomes(page, 'saved');
      t.same(await visitor.sent(), [], 'no visit');
      t.equal(await page.evaluate('localStorage.wishmeter_session'), undefined);
      await page.reload();
      await becomes(page, 'saved');
      await page.goto(showKit(fixtures, '/gpc-off', heartTag(1), 'data-gpc="off"'));
      t.equal(await whyOff(page), 'privacy');
    },
  );

  await t.test('an automated browser has no wishlist, unless the tag has data-test', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.addInitScript("Object.defineProperty(navigator, 'webdriver', { value: true })");
    const page = await visitor.open(url);
    t.equal(await whyOff(page), 'robot');
    await page.goto(showKit(fixtures, '/test', heartTag(1), 'data-test data-product-handle="tested"'));
    await becomes(page, '');
    t.equal(await page.evaluate("wishmeter.count('tested')"), 1);
    // The service takes no part in it: it goes by the User-Agent.
    const headless = await visit(t, fixtures, { userAgent: 'Mozilla/5.0 HeadlessChrome/142.0.0.0' });
    const other = await headless.open(`${shop.origin}/test`);
    await becomes(other, '');
    t.equal(await other.evaluate("wishmeter.count('tested')"), 0);
    t.same(headless.infos, ['wishmeter: not counted: robot']);
  });

  await t.test('a page with both scripts, in any order, counts one visit', async (t) => {
    const beacon = tag(service, 'both');
    const own = kitTag(service, 'data-product-handle="both"');
    for (const [i, html] of [beacon + own, own + beacon, own + own].entries()) {
      const page = await (await visit(t, fixtures)).open(shop.show(`/both-${i}`, `${heartTag(1)}${html}`));
      await becomes(page, '');
      await page.waitForLoadState('networkidle');
      t.equal(await page.evaluate("wishmeter.count('both')"), 1, html);
      await press(page);
      await becomes(page, 'saved');
    }
  });

  await t.test('a strict Content-Security-Policy needs only script-src and connect-src', async (t) => {
    const visitor = await visit(t, fixtures);
    const policy = `default-src 'none'; script-src ${service}; connect-src ${service}`;
    const isolating = {
      'cross-origin-embedder-policy': 'require-corp',
      'cross-origin-opener-policy': 'same-origin',
    };
    const headers = { 'content-security-policy': policy, ...isolating };
    const page = await visitor.open(shop.show('/strict', `${heartTag(1)}${kitTag(service)}`, headers));
    t.equal(await page.evaluate('crossOriginIsolated'), true);
    await becomes(page, '');
    await press(page);
    await becomes(page, 'saved');
    const button = "document.querySelector('wishlist-heart').shadowRoot.querySelector('button')";
    t.equal(await page.evaluate(`getComputedStyle(${button}).display`), 'flex', 'its styles are there');
  });

  await t.test(
    'listeners can cancel a click, and the methods of wishmeter save and remove as hearts do',
    async (t) => {
      const page = await (await visit(t, fixtures)).open(url);
      await becomes(page, '');
      await page.evaluate(
        "addEventListener('wishlist:add', (event) => event.preventDefault(), { once: true })",
      );
      await press(page);
      t.equal(await pressed(page), 'false');
      const product =
        "{ productId: '1', variantId: '11', productHandle: 'shoe-1', productTitle: 'Shoe 1', price: '1.00' }";
      t.equal(await page.evaluate(`wishmeter.add(${product})`), true);
      await becomes(page, 'saved');
      t.equal(await page.evaluate("wishmeter.has({ productId: '1' })"), true);
      t.match(await page.evaluate('wishmeter.list()'), [{ productTitle: 'Shoe 1' }]);
      t.match(await page.evaluate('wishmeter.share()'), /wishlist\/share/);
      await page.evaluate(`wishmeter.remove(${product})`);
      await becomes(page, '');
    },
  );

  await t.test('a prerendered page sends nothing until it is shown', async (t) => {
    shop.forward('/hearts-service', app.port, (url) => url.slice('/hearts-service'.length));
    shop.show(
      '/prepared-hearts',
      `${heartTag(1)}${kitTag('/hearts-service', 'data-product-handle="prepared-heart"')}<script>
        addEventListener('load', () => setTimeout(() => fetch('/hearts-settled?' + document.prerendering)));
        addEventListener('wishlist:ready', () =>
          fetch('/hearts-ready?' + document.prerendering + document.querySelector('wishlist-heart').getAttribute('state')));
      </script>`,
    );
    const rules = JSON.stringify({ prerender: [{ urls: ['/prepared-hearts'], eagerness: 'immediate' }] });
    const go = "fetch('/hearts-gate').then(({ ok }) => ok && document.querySelector('a').click())";
    const lobby = `<a href="/prepared-hearts">on</a><script type="speculationrules">${rules}</script><script>setInterval(() => ${go}, 50)</script>`;
    const asked = () => shop.asked.filter((path) => /hearts-service\/(item|product)/.test(path)).length;
    await openUndriven(t, fixtures.chromium, shop.show('/hearts-lobby', lobby));
    await eventually(t, async () => shop.asked.includes('/hearts-settled?true'), true);
    t.equal(asked(), 0);
    shop.show('/hearts-gate', '');
    await eventually(t, async () => shop.asked.includes('/hearts-ready?false'), true);
    t.ok(asked() >= 2, 'the visit and the hearts');
  });
}

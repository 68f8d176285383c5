// What the beacon counts, in a real browser, on pages of another origin than the service's.

import { setTimeout as sleep } from 'node:timers/promises';
import { devices } from 'playwright-core';
import t from 'tap';
import { openUndriven } from '../harness/chromium.js';
import {
  answers,
  countOf,
  eventually,
  inChromium,
  PUBLISHABLE,
  STORED,
  sessionOf,
  tag,
  VISIT_PATH,
  visit,
} from '../harness/storefront.js';

await inChromium(t, async (t, world) => {
  const { shop, app, service } = world;

  await t.test('a view of a page is one visit, which the service and the page can read', async (t) => {
    const visitor = await visit(t, world);
    const page = await visitor.open(shop.show('/one', tag(service, 'one')));
    const sessionId = await sessionOf(page);
    t.match(sessionId, /^\d+-\d+-\d+-\d+$/);
    await eventually(t, () => countOf(app, sessionId, 'one'), 1);
    t.equal(await page.evaluate("wishmeter.count('one')"), 1);
    t.same(visitor.sent('POST'), [
      {
        kind: 'ping',
        type: 'text/plain;charset=UTF-8',
        body: { identity: { sessionId, device: 'desktop' }, productHandle: 'one' },
      },
    ]);
  });

  await t.test('a reload is a second view; another tab is a third, of the same visitor', async (t) => {
    const visitor = await visit(t, world);
    const url = shop.show('/again', tag(service, 'again'));
    const page = await visitor.open(url);
    const sessionId = await sessionOf(page);
    await eventually(t, () => countOf(app, sessionId, 'again'), 1);
    await page.reload();
    await eventually(t, () => countOf(app, sessionId, 'again'), 2);
    const tab = await visitor.open(url);
    t.equal(await sessionOf(tab), sessionId);
    await eventually(t, () => countOf(app, sessionId, 'again'), 3);
  });

  await t.test('a page that comes back as it was (back/forward cache) is viewed again', async (t) => {
    const visitor = await visit(t, world);
    const page = await visitor.open(shop.show('/kept', tag(service, 'kept')));
    const sessionId = await sessionOf(page);
    await page.goto(shop.show('/next', '<h1>next</h1>'));
    await page.evaluate('void setTimeout(() => history.back())');
    await eventually(t, () => countOf(app, sessionId, 'kept'), 2);
    t.equal(shop.asked.filter((path) => path === '/kept').length, 1, 'it was not loaded again');
  });

  await t.test('a visitor who leaves as soon as the page is there is counted', async (t) => {
    const visitor = await visit(t, world);
    const left = shop.show('/left', '<h1>left</h1>');
    const leave = `document.addEventListener('DOMContentLoaded', () => { location.href = '${left}' })`;
    const html = `${tag(service, 'hurry')}<script>${leave}</script>`;
    const page = await visitor.open(shop.show('/hurry', html), left);
    await eventually(t, () => sessionOf(page).then((id) => countOf(app, id, 'hurry')), 1);

    const slow = shop.show('/slow', `<script>navigator.sendBeacon = undefined</script>${html}`);
    await page.goto(slow, { waitUntil: 'commit' });
    await page.waitForURL(left);
    await eventually(t, () => sessionOf(page).then((id) => countOf(app, id, 'hurry')), 2);
  });

  await t.test('the tag twice counts once, and an element called wishmeter does not stop it', async (t) => {
    const visitor = await visit(t, world);
    const twice = tag(service, 'twice') + tag(service, 'twice');
    const page = await visitor.open(shop.show('/twice', `<div id="wishmeter"></div>${twice}`));
    const sessionId = await sessionOf(page);
    await eventually(t, () => countOf(app, sessionId, 'twice'), 1);
  });

  for (const [how, sendBeacon] of [
    ['missing', 'undefined'],
    ['refusing', '() => false'],
  ] as const) {
    await t.test(`with sendBeacon ${how}, fetch counts`, async (t) => {
      const visitor = await visit(t, world);
      const html = `<script>
        navigator.sendBeacon = ${sendBeacon};
        const send = fetch;
        window.fetch = (url, options) => send(url, (window.asked = options));
      </script>${tag(service, how)}`;
      const page = await visitor.open(shop.show(`/${how}`, html));
      const sessionId = await sessionOf(page);
      await eventually(t, () => countOf(app, sessionId, how), 1);
      t.match(visitor.sent('POST'), [{ kind: 'fetch', type: 'text/plain;charset=UTF-8' }]);
      t.match(await page.evaluate('asked'), { keepalive: true, credentials: 'omit' });
    });
  }

  await t.test(
    'without a handle it counts nothing by itself, and visit() counts what a page shows',
    async (t) => {
      const visitor = await visit(t, world);
      const page = await visitor.open(shop.show('/app', tag(service)));
      await sleep(200);
      t.same(visitor.sent('POST'), []);
      const odd = '__proto__ {x} "ü" &a=1#?+ 👟';
      await page.evaluate(
        `wishmeter.visit('a'), wishmeter.visit(${JSON.stringify(odd)}), wishmeter.visit('a')`,
      );
      const sessionId = await sessionOf(page);
      await eventually(t, () => countOf(app, sessionId, 'a'), 2);
      await eventually(t, () => page.evaluate(`wishmeter.count(${JSON.stringify(odd)})`), 1);
      await page.evaluate('wishmeter.visit(), wishmeter.visit(""), wishmeter.visit(null)');
      await sleep(100);
      t.equal(visitor.sent('POST').length, 3, 'no handle is no visit');
    },
  );

  await t.test('a phone says that it is one', async (t) => {
    const visitor = await visit(t, world, devices['Pixel 7']);
    await visitor.open(shop.show('/phone', tag(service, 'phone')));
    await eventually(t, async () => visitor.sent('POST')[0]?.body.identity.device, 'mobile');
  });

  await t.test(
    'scripts of a shop may also post JSON with the key in a header: the preflight is granted',
    async (t) => {
      const visitor = await visit(t, world);
      const page = await visitor.open(shop.show('/json', tag(service)));
      const body = JSON.stringify({ identity: { sessionId: 'json' }, productHandle: 'json' });
      const headers = JSON.stringify({ 'content-type': 'application/json', 'x-api-key': PUBLISHABLE });
      const url = `${service}${VISIT_PATH}?count=true`;
      t.match(
        await page.evaluate(
          `fetch('${url}', { method: 'POST', headers: ${headers}, body: '${body}' }).then((answer) => answer.json())`,
        ),
        { productHandle: 'json', count: 1 },
      );
    },
  );

  await t.test('a page that is prepared in advance is viewed when it is shown', async (t) => {
    const before = await answers(app);
    const report = (path: string, more: string) => `fetch('${path}?' + ${STORED} + ${more})`;
    shop.show(
      '/prepared',
      `${tag(service, 'prepared')}<script>
        document.addEventListener('DOMContentLoaded', () => {
          ${report('/ran', "'&' + document.prerendering + '&' + typeof wishmeter")};
          document.addEventListener('prerenderingchange', () => ${report('/shown', "''")});
        });
      </script>`,
    );
    const rules = JSON.stringify({ prerender: [{ urls: ['/prepared'], eagerness: 'immediate' }] });
    const go = "fetch('/gate').then(({ ok }) => ok && document.querySelector('a').click())";
    const lobby = shop.show(
      '/lobby',
      `<a href="/prepared">on</a><script type="speculationrules">${rules}</script>
       <script>setInterval(() => ${go}, 50)</script>`,
    );
    await openUndriven(t, world.chromium, lobby);
    await eventually(t, async () => shop.asked.includes('/ran?null&true&object'), true);
    await sleep(200);
    t.same(await answers(app), before, 'nothing was sent while nobody saw the page');

    shop.show('/gate', '');
    await eventually(t, async () => shop.asked.some((path) => path.startsWith('/shown?')), true);
    const sessionId = shop.asked.find((path) => path.startsWith('/shown?'))?.slice('/shown?'.length) ?? '';
    await eventually(t, () => countOf(app, sessionId, 'prepared'), 1);
    t.equal(shop.asked.filter((path) => path === '/prepared').length, 1, 'it was not loaded again');
  });
});

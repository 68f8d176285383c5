// The page of visitors in a browser: what support does, what strangers' texts may not do, and how it looks.

import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import type { Test } from 'tap';
import { faultsOf } from '../../http/kit/shop.js';
import { newPage } from './browser.js';
import { TOKEN } from './fixtures.js';
import { ANNA, IMAGE, type VisitorFixtures } from './visitors-fixtures.js';

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const XSS = '<img src=x onerror="document.title=1"><script>document.title=2</script>"\'{{7*7}}';

export async function visitorsInBrowser(t: Test, browser: Browser, fixtures: VisitorFixtures): Promise<void> {
  const { app, makeCustomer } = fixtures;

  async function visit(t: Test, token = ANNA) {
    const shown = await fixtures.open(t);
    const { page, said } = await newPage(t, browser, shown.url);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.route('https://cdn.shop.example/**', (route) =>
      route.fulfill({ body: PIXEL, contentType: 'image/png' }),
    );
    await page.goto(`${shown.url}/visitors#token=${token}`);
    return { ...shown, page, said, asked };
  }
  async function find(page: Page, text: string): Promise<void> {
    await page.getByLabel('Customer id, session id or e-mail address').fill(text);
    await page.getByRole('button', { name: 'Find', exact: true }).click();
  }
  const panel = (page: Page, name: string) => page.getByRole('region', { name, exact: true });

  await t.test('support sees the list of a customer, and her address is in no URL', async (t) => {
    const { page, said, asked } = await visit(t);
    const { customerId, email, shareLink, orderId } = await makeCustomer();
    await find(page, email);
    await page.getByText(`Found by e-mail address: customer ${customerId}.`).waitFor();
    const list = panel(page, 'Wishlist: 1 product');
    t.match(await list.textContent(), /Red shoe.*red-shoe.*€79\.90 · 2 pieces.*saved .* from product page/);
    const picture = list.locator('img');
    t.equal(await picture.getAttribute('src'), IMAGE.image);
    await page.waitForFunction("document.querySelector('.items img').naturalWidth === 1");
    t.match(await panel(page, `Customer ${customerId}`).textContent(), /Known since.*\d\d:\d\d/);
    t.match(
      await panel(page, 'What happened').textContent(),
      /Shared the list.*Removed.*today.*Blue hat.*blue-hat/,
    );
    const orders = await panel(page, 'Orders').textContent();
    t.match(orders, new RegExp(`${orderId}.*Blue hat.*€19\\.50`), 'an order has the title of its product');
    t.equal(await panel(page, 'Shared lists').getByRole('link').getAttribute('href'), shareLink);
    for (const text of ['mail.test', 'Ada', customerId]) {
      t.notMatch(asked.join(' '), text);
      t.notMatch(await page.title(), text);
    }
    t.notMatch(page.url(), '@');
    t.same(said, []);
  });

  await t.test('the download is the whole export, and the erasure asks a second time', async (t) => {
    const { page, logged, said, asked } = await visit(t);
    const { customerId, profileId } = await makeCustomer();
    await find(page, customerId);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download all data' }).click(),
    ]);
    t.equal(download.suggestedFilename(), `wishmeter-visitor-${profileId}.json`);
    t.same(
      JSON.parse(await readFile(await download.path(), 'utf8')),
      await app.shop.exported({ customerId }),
    );
    const question = page.getByRole('dialog', { name: `Erase customer ${customerId}?` });
    for (const leave of [
      () => question.getByRole('button', { name: 'Keep' }).click(),
      () => page.keyboard.press('Escape'),
    ]) {
      await page.getByRole('button', { name: 'Erase …' }).click();
      await question.waitFor();
      t.equal(await page.evaluate('document.activeElement.textContent'), 'Keep', 'Enter erases nothing');
      await leave();
      await question.waitFor({ state: 'hidden' });
      t.equal((await app.shop.items({ customerId })).length, 1);
    }
    await page.getByRole('button', { name: 'Erase …' }).click();
    await question.getByRole('button', { name: 'Erase for ever' }).click();
    await page.getByText(`Erased: customer ${customerId}.`).waitFor();
    t.equal(
      asked.filter((url) => url.endsWith('/visitors/erase')).length,
      1,
      'neither Keep nor Escape erases',
    );
    t.equal(await page.locator('#visitor').textContent(), '');
    t.same(await app.shop.items({ customerId }), []);
    t.same(
      logged().map(({ login, msg }) => `${login}: ${msg}`),
      ['anna: visitor viewed', 'anna: visitor exported', 'anna: visitor erased'],
    );
    await find(page, customerId);
    await page.getByText('Nothing is kept of a visitor with this id or address.').waitFor();
    t.same(
      said.filter((one) => !one.includes('404')),
      [],
    );
  });

  await t.test(
    'a name, title, handle or address that a stranger types is text, and loads nothing',
    async (t) => {
      const { page, said, asked, url } = await visit(t);
      const sessionId = `x"><svg onload=alert(1)>`;
      await app.shop.add(
        {
          sessionId,
          firstName: XSS,
          lastName: XSS,
          email: `"${'<b>x</b>'}"@mail.test`,
          locale: '<i>',
          device: XSS.slice(0, 60),
        },
        {
          productTitle: XSS,
          variantTitle: XSS,
          productHandle: 'javascript:alert(1)',
          image: 'https://evil.example/x.png',
        },
      );
      await app.shop.event({ sessionId }, 'share', {
        channel: XSS,
        shareLink: 'javascript:alert(1)',
        productTitle: XSS,
      });
      await app.shop.event({ sessionId }, 'add', {
        productTitle: { toString: 1 },
        productHandle: XSS,
        source: '__proto__',
      });
      await app.shop.visit({ sessionId }, '__proto__');
      const { profileId } = await app.shop.itemCount({ sessionId });
      await fixtures.inClickHouse(profileId, 3);
      await find(page, sessionId);
      await page.getByText('Guest', { exact: true }).waitFor();
      t.match(await panel(page, 'Visit counts').textContent(), '__proto__');
      t.equal(await page.locator('#visitor :is(script, svg, i, b, iframe), #visitor img').count(), 0);
      const links = await page.evaluate(
        "Array.from(document.querySelectorAll('#visitor a'), ({ href }) => href)",
      );
      t.same(links, ['https://shop.example/products/javascript%3Aalert(1)']);
      t.equal(await page.title(), 'Visitors – wishmeter');
      t.same(
        asked.filter((one) => !one.startsWith(url) && !one.startsWith('data:')),
        [],
      );
      t.same(said, []);
    },
  );

  await t.test(
    'the shared token is told to log in as a person; a log-out leaves nothing on the page',
    async (t) => {
      const { page } = await visit(t, TOKEN);
      await page.getByRole('heading', { name: 'Log in as yourself' }).waitFor();
      t.notOk(await page.locator('#finding').isVisible());
      await page.getByRole('button', { name: 'Log in with your own token' }).click();
      await page.getByLabel('Token').fill(ANNA);
      await page.getByRole('button', { name: 'Log in', exact: true }).click();
      const { customerId } = await makeCustomer();
      await find(page, customerId);
      await page.getByText('Red shoe').first().waitFor();
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByLabel('Token').waitFor();
      t.notMatch(await page.locator('body').textContent(), /Red shoe|mail\.test|Ada/);
    },
  );

  await t.test('an address of several visitors leads to each of them', async (t) => {
    const { page } = await visit(t);
    const email = 'pair@mail.test';
    for (const customerId of ['901', '902']) await app.shop.add({ customerId, email });
    await find(page, email);
    await page.getByText('2 visitors gave pair@mail.test').waitFor();
    await page.getByRole('button', { name: 'Erase …' }).click();
    await page
      .getByRole('dialog', { name: 'Erase 2 visitors?' })
      .getByRole('button', { name: 'Keep' })
      .click();
    await page.getByRole('button', { name: 'Customer 901' }).click();
    await page.getByText('Found by customer id: customer 901.').waitFor();
    t.equal(await page.locator('#others').count(), 0);
  });

  await t.test(
    'at 390 and 1,440 px, light and dark, axe finds nothing and nothing is too wide',
    async (t) => {
      const { page } = await visit(t);
      const { customerId, email } = await makeCustomer();
      await app.shop.add({ customerId: 'another', email });
      const check = async (name: string) => {
        for (const colorScheme of ['light', 'dark'] as const)
          for (const width of [390, 1_440]) {
            await page.emulateMedia({ colorScheme });
            await page.setViewportSize({ width, height: 844 });
            t.ok(
              (await page.evaluate<number>('document.documentElement.scrollWidth')) <= width,
              'not too wide',
            );
            t.same(await faultsOf(page), [], `${name} ${colorScheme} ${width}`);
            const folder = process.env['PICTURES'];
            if (folder)
              await page.screenshot({
                path: `${folder}/${name}-${colorScheme}-${width}.png`,
                fullPage: true,
              });
          }
      };
      await check('empty');
      await find(page, customerId);
      await page.getByText(`Found by customer id`).waitFor();
      await check('customer');
      await find(page, email);
      await page.getByText('2 visitors gave').waitFor();
      await check('others');
      await page.getByRole('button', { name: 'Erase …' }).click();
      await check('question');
    },
  );
}

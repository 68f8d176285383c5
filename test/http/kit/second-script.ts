// How pages get /wishlist-page.js, which /wishlist.js imports: under strict policies, as a module, and after a failure.

import type { Test } from 'tap';
import { type BrowserFixtures, PUBLISHABLE, visit } from '../../harness/storefront.js';
import { fill, heartTag, kitTag, press, rows, showKit } from './shop.js';

const LIST = '<wishlist-page></wishlist-page>';
const EMPTY = 'Your wishlist is empty';

export async function kitSecondScript(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, service } = fixtures;

  for (const [name, path, tag, headers] of [
    [
      'a strict policy with COEP and Trusted Types',
      '/strict-list',
      kitTag(service),
      {
        'content-security-policy': `default-src 'none'; script-src ${service}; connect-src ${service}; require-trusted-types-for 'script'; trusted-types 'none'`,
        'cross-origin-embedder-policy': 'require-corp',
        'cross-origin-opener-policy': 'same-origin',
      },
    ],
    [
      'a policy that goes by nonces',
      '/nonce-list',
      kitTag(service, 'nonce="n"'),
      { 'content-security-policy': `default-src 'none'; script-src 'nonce-n'; connect-src ${service}` },
    ],
    [
      'type="module"',
      '/module-list',
      `<script type="module" src="${service}/wishlist.js" data-key="${PUBLISHABLE}"></script>`,
      {},
    ],
  ] as const)
    await t.test(`a page with ${name} has its list, and a toast of a heart`, async (t) => {
      const visitor = await visit(t, fixtures, {});
      const page = await visitor.open(shop.show(path, `${LIST}${heartTag(1, 'toast')}${tag}`, headers));
      await page.getByText(EMPTY).waitFor();
      await press(page);
      await page.getByRole('button', { name: 'Remove: Shoe 1' }).click();
      await page.getByRole('button', { name: 'Undo' }).click();
      await rows(page).first().waitFor();
      const display =
        "getComputedStyle(document.querySelector('wishlist-page').shadowRoot.querySelector('li')).display";
      t.equal(await page.evaluate(display), 'grid', 'its styles are there');
      t.same(visitor.warnings, []);
    });

  await t.test(
    'a page without a list loads /wishlist.js alone, and one that comes later is filled',
    async (t) => {
      const visitor = await visit(t, fixtures, {});
      const asked: string[] = [];
      visitor.context.on('request', (request) => asked.push(request.url()));
      const page = await visitor.open(showKit(fixtures, '/no-list', heartTag(1)));
      await page.locator('wishlist-heart[state=""]').waitFor();
      await page.waitForLoadState('networkidle');
      const second = () => asked.filter((url) => url.includes('wishlist-page.js'));
      t.same(second(), []);
      for (const _ of ['one', 'another'])
        await page.evaluate(`document.body.insertAdjacentHTML('beforeend', '${LIST}')`);
      await page.getByText(EMPTY).nth(1).waitFor();
      t.match(second(), [/\?v=\w{8}&key=/], 'once, under an address of its version');
    },
  );

  await t.test('a second script that fails to load is tried again, and stops no heart', async (t) => {
    const visitor = await visit(t, fixtures, {});
    let failures = 0;
    await visitor.context.route(/wishlist-page\.js/, (route) =>
      failures++ < 2 ? route.fulfill({ status: 503 }) : route.continue(),
    );
    const page = await visitor.open(showKit(fixtures, '/late-list', `${LIST}${heartTag(1)}`));
    await press(page);
    await page.locator('wishlist-heart[state=saved]').waitFor();
    await fill(fixtures, page, [2]);
    t.equal(await rows(page).count(), 2);
    t.match(visitor.warnings, [/wishmeter: .*wishlist-page\.js/]);
  });
}

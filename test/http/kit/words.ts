// The kit's texts in the page's language, names that are written from right to left, messages, and the live region.

import type { Test } from 'tap';
import { type BrowserFixtures, visit } from '../../harness/storefront.js';
import { becomes, fill, heartTag, kitTag, openKit, press, ROOM, rows } from './shop.js';

export async function kitWords(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, service } = fixtures;

  await t.test('one object has a shop’s texts of all elements and languages', async (t) => {
    const texts = {
      DE: { label: 'Merken: #', empty: 'Hier ist nichts' },
      it: { label: 'Salva #' },
      '*': { share: 'Send' },
    };
    const page = await openKit(
      t,
      fixtures,
      '/texts',
      `<script>window.wishmeterOptions = { texts: ${JSON.stringify(texts)} }</script>
      ${heartTag(1)}${heartTag(2, 'text-label="Own: #"')}<div lang="fr">${heartTag(3)}</div><wishlist-page></wishlist-page>`,
    );
    await becomes(page, '');
    for (const [lang, label] of [
      ['de', 'Merken: Shoe 1'],
      ['DE', 'Merken: Shoe 1'],
      ['de_AT', 'Merken: Shoe 1'],
      ['it-CH', 'Salva Shoe 1'],
      ['es', 'Lista de deseos: Shoe 1'],
      ['constructor', 'Wishlist: Shoe 1'],
      ['__proto__', 'Wishlist: Shoe 1'],
    ] as const) {
      await page.evaluate(`document.documentElement.lang = '${lang}'; wishmeter.refresh()`);
      await page.getByRole('button', { name: label, exact: true }).waitFor();
      t.pass(lang);
    }
    t.equal(await page.getByRole('button', { name: 'Own: Shoe 2', exact: true }).count(), 1, 'an attribute');
    const french = page.getByRole('button', { name: 'Liste d’envies : Shoe 3', exact: true });
    t.equal(await french.count(), 1, 'the language of what is around it');
    await fill(fixtures, page, [1]);
    t.equal(await page.getByRole('button', { name: 'Send', exact: true }).count(), 1, '* is every language');
  });

  await t.test('an Arabic name moves nothing of the text around it', async (t) => {
    const name = 'حذاء (جديد)';
    const heart = heartTag(1).replace('name="Shoe 1"', `name="${name}"`);
    const page = await openKit(t, fixtures, '/arabic', `${heart}<wishlist-page></wishlist-page>`);
    await press(page);
    const title = rows(page).locator('[part=title]');
    await title.waitFor();
    t.equal(await page.getByRole('button', { name: `Remove: \u2068${name}\u2069` }).count(), 1);
    t.equal(await title.locator('bdi').textContent(), name);
  });

  await t.test('a message is above the page, whatever the theme does to what is around it', async (t) => {
    const style = `<style>main { transform: scale(.5); text-transform: uppercase; letter-spacing: 9px; overflow: hidden; font-weight: 900 }
      div:empty, p:empty { display: none } </style>`;
    const page = await openKit(t, fixtures, '/theme', `${style}<main><wishlist-page></wishlist-page></main>`);
    await fill(fixtures, page, [1]);
    await page.getByRole('button', { name: 'Remove: Shoe 1' }).click();
    const toast = page.locator('[part=toast]');
    await toast.waitFor();
    const css =
      "(() => { const one = document.querySelector('wishlist-page').shadowRoot.querySelector('[part=toast]'); const { textTransform, letterSpacing, fontWeight } = getComputedStyle(one); return [one.matches(':popover-open'), textTransform, letterSpacing, fontWeight].join() })()";
    t.equal(await page.evaluate(css), 'true,none,normal,400');
    const box = await toast.boundingBox();
    const { height = 0, width = 0 } = page.viewportSize() ?? {};
    t.ok(box && Math.abs(height - 16 - (box.y + box.height)) < 2, 'at the bottom of the window');
    t.ok(box && Math.abs(box.x + box.width / 2 - width / 2) < 10, 'in its middle');
    await page.getByRole('button', { name: 'Undo' }).click();
    await rows(page).first().waitFor();
  });

  await t.test('a browser without popovers shows the message, too', async (t) => {
    const visitor = await visit(t, fixtures, {});
    await visitor.context.addInitScript('delete HTMLElement.prototype.showPopover');
    const page = await visitor.open(
      shop.show('/no-popover', `${ROOM}<wishlist-page></wishlist-page>${kitTag(service)}`),
    );
    await fill(fixtures, page, [1]);
    await page.getByRole('button', { name: 'Remove: Shoe 1' }).click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await rows(page).first().waitFor();
  });

  await t.test(
    'the live region outlives a swap of the body, and a theme that hides what is empty',
    async (t) => {
      const style = '<style>div:empty { display: none }</style>';
      const page = await openKit(t, fixtures, '/live', style + heartTag(1));
      const says = (message: string) =>
        page.getByRole('status').filter({ hasText: message }).waitFor({ state: 'attached' });
      await becomes(page, '');
      await press(page);
      await says('Added to the wishlist');
      await page.evaluate(`{
      const body = document.createElement('body');
      body.innerHTML = ${JSON.stringify(heartTag(2))};
      document.body.replaceWith(body);
      document.querySelector('[role=status]').textContent = '';
    }`);
      const isShown = "getComputedStyle(document.querySelector('[role=status]')).display";
      t.equal(await page.evaluate(isShown), 'block', 'also while it is empty');
      await page.evaluate("document.querySelector('[role=status]').remove()");
      await press(page, 2);
      await says('Added to the wishlist');
    },
  );
}

// docs/storefront.md as it stands: its page, with nothing but a publishable key, and its backend for customers.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { freePort } from '../../../bench/servers/ports.js';
import { tempDir } from '../../cli/wishmeter.js';
import { KEY } from '../../harness/app.js';
import { ITEM } from '../../harness/shop.js';
import { type BrowserFixtures, eventually, PUBLISHABLE, sessionOf, visit } from '../../harness/storefront.js';
import { until } from '../../harness/until.js';

const DOCUMENT = readFileSync('docs/storefront.md', 'utf8');

/** A code block of a language, by its number. */
function blockOf(language: string, at = 0): string {
  const blocks = [...DOCUMENT.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))];
  const block = blocks[at]?.[1];
  if (block === undefined) throw new Error(`docs/storefront.md has no ${language}`);
  return block;
}

export async function storefrontPage(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const page = (at: number) =>
    blockOf('html', at).replaceAll('https://wishmeter.example', service).replaceAll('pk_…', PUBLISHABLE);
  const url = shop.show('/storefront', page(1));
  const isSaved = async (page: Page) =>
    (await page.locator('#heart').getAttribute('aria-pressed')) === 'true';
  const itemsOf = async (page: Page) => app.shop.items({ sessionId: await sessionOf(page) });

  await t.test('the kit’s three tags count, save, and offer to at the third visit', async (t) => {
    const tab = await (await visit(t, fixtures)).open(shop.show('/three-tags', page(0)));
    await tab.getByRole('button', { name: 'Wishlist: Red shoe' }).click();
    await tab.locator('wishlist-heart[state="saved"]').waitFor();
    const sessionId = await sessionOf(tab);
    t.match(await app.shop.items({ sessionId }), [{ productId: '1001', variantId: '2002', price: '49.90' }]);
    await tab.getByRole('button', { name: 'Wishlist: Red shoe' }).click();
    await tab.locator('wishlist-heart[state=""]').waitFor();
    await eventually(t, () => app.shop.count({ sessionId, productHandle: 'red-shoe' }), 0);
    for (const visits of [1, 2]) {
      await tab.reload();
      t.equal(await tab.evaluate("wishmeter.count('red-shoe')"), visits);
    }
    await tab.reload();
    await tab.getByRole('button', { name: 'Yes' }).click();
    await eventually(t, async () => (await app.shop.items({ sessionId })).length, 1);
  });

  await t.test('the heart saves and removes with a publishable key alone', async (t) => {
    const page = await (await visit(t, fixtures)).open(url);
    const heart = page.getByRole('button', { name: 'Save', exact: true });
    await heart.click();
    await eventually(t, () => isSaved(page), true);
    t.match(await itemsOf(page), [{ productId: '1001', variantId: '2002', source: 'pdp' }]);
    await page.reload();
    await eventually(t, () => isSaved(page), true);
    await page.getByRole('button', { name: 'Saved', exact: true }).click();
    await eventually(t, () => isSaved(page), false);
    t.same(await itemsOf(page), []);
  });

  await t.test('Smart Save saves at the third visit, and not what was removed', async (t) => {
    const page = await (await visit(t, fixtures)).open(url);
    for (const visits of [1, 2]) {
      t.equal(await page.evaluate("wishmeter.count('red-shoe')"), visits);
      t.same(await itemsOf(page), []);
      await page.reload();
    }
    await eventually(t, () => isSaved(page), true);
    t.match(await itemsOf(page), [{ source: 'pdpSmartSave' }]);
    await page.getByRole('button', { name: 'Saved', exact: true }).click();
    await eventually(t, () => isSaved(page), false);
    await page.reload();
    t.equal(await page.evaluate("wishmeter.count('red-shoe')"), 4);
    await page.waitForLoadState('networkidle');
    t.same(await itemsOf(page), []);
  });

  await t.test(
    'the backend takes wishlists of the customer who is logged in, and nothing else',
    async (t) => {
      const dir = await tempDir(t);
      await writeFile(join(dir, 'package.json'), '{"type":"module"}');
      await writeFile(
        join(dir, 'login.js'),
        "export const customerOf = ({ headers }) => /customer=(\\d+)/.exec(headers.cookie ?? '')?.[1];",
      );
      await writeFile(join(dir, 'wishlist.js'), blockOf('js'));
      const startBackend = async (url: string) => {
        const port = await freePort();
        const backend = spawn(process.execPath, ['wishlist.js'], {
          cwd: dir,
          env: { ...process.env, WISHMETER_URL: url, WISHMETER_KEY: KEY, PORT: String(port) },
          stdio: 'ignore',
        });
        t.teardown(() => backend.kill());
        const ask = async (path: string, cookie: string, body: unknown, type = 'application/json') => {
          const headers = { cookie, 'content-type': type };
          const answer = await fetch(`http://127.0.0.1:${port}/wishlist${path}`, {
            method: 'POST',
            headers,
            body: JSON.stringify(body),
          });
          return { status: answer.status, text: await answer.text() };
        };
        await until('the backend listens', () =>
          ask('/item/list', '', {}).then(
            () => true,
            () => false,
          ),
        );
        return ask;
      };
      const ask = await startBackend(service);
      const identity = { sessionId: 'at-the-shop', customerId: '8' };
      t.equal((await ask('/item/list', '', { identity })).status, 401, 'a guest');
      t.equal((await ask('/profile', 'customer=7', { identity })).status, 404, 'another path');
      t.equal(
        (await ask('/item/list', 'customer=7', { identity }, 'text/plain')).status,
        404,
        'what other sites can send',
      );
      await app.shop.add({ sessionId: 'at-the-shop' });
      const { status, text } = await ask('/item/list', 'customer=7', { identity });
      t.equal(status, 200);
      t.equal(JSON.parse(text).items.length, 1, "what the guest saved is the customer's");
      t.equal(
        (await app.shop.items({ customerId: '7' })).length,
        1,
        'also where nothing else is known of the session',
      );
      t.equal((await ask('/item/add', 'customer=7', { ...ITEM, identity, productId: '9' })).status, 200);
      t.equal((await app.shop.items({ customerId: '7' })).length, 2);
      t.same(await app.shop.items({ customerId: '8' }), [], 'the customer whom the body names');
      for (const body of [[], null, 'text', 7])
        t.equal((await ask('/item/list', 'customer=7', body)).status, 200, 'a body without an identity');

      const askInVain = await startBackend(`http://127.0.0.1:${await freePort()}`);
      for (const _ of ['first', 'second'])
        t.equal((await askInVain('/item/list', 'customer=7', {})).status, 502, 'the service is away');
    },
  );
}

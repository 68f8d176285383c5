// docs/storefront.md as it stands: its page, with nothing but a publishable key, and its backend for customers.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { freePort } from '../../../bench/servers/ports.js';
import { tempDir } from '../../cli/wishmeter.js';
import { KEY } from '../../harness/app.js';
import { needsPrograms } from '../../harness/needs.js';
import { startProxy } from '../../harness/proxy.js';
import { ITEM } from '../../harness/shop.js';
import { type BrowserFixtures, eventually, PUBLISHABLE, sessionOf, visit } from '../../harness/storefront.js';
import { until } from '../../harness/until.js';

const DOCUMENT = readFileSync('docs/storefront.md', 'utf8');

/** @param part text of the block that is meant */
export function blockOf(language: string, part: string): string {
  const blocks = [...DOCUMENT.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))];
  const block = blocks.map(([, text]) => text ?? '').find((text) => text.includes(part));
  if (block === undefined) throw new Error(`docs/storefront.md has no ${language} with ${part}`);
  return block;
}

const MODULES = {
  'package.json': '{"type":"module"}',
  'login.js': `export const customerOf = ({ headers }) =>
    /customer=(\\d+)/.exec(headers.cookie ?? headers.get?.('cookie') ?? '')?.[1];`,
  'wishlist.js': blockOf('js', 'export async function wishlist'),
};

/** Calls a route as Next does: with a Request, and the rest of its path. */
const NEXT = `import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { POST } from './route.js';
createServer(async (request, response) => {
  const { url, headers, method } = request;
  const sent = new Request('http://shop' + url, { method, headers, body: await text(request) });
  const answer = await POST(sent, { params: Promise.resolve({ path: url.split('/').slice(2) }) });
  response.writeHead(answer.status).end(await answer.text());
}).listen(process.env.PORT);`;

type Files = Readonly<Record<string, string>>;
const BACKENDS: readonly (readonly [name: string, Files, command: (port: number) => readonly string[]])[] = [
  ['Node', { ...MODULES, 'main.js': blockOf('js', 'createServer') }, () => [process.execPath, 'main.js']],
  ['Express', { ...MODULES, 'main.js': blockOf('js', 'express()') }, () => [process.execPath, 'main.js']],
  [
    'Next.js',
    { ...MODULES, 'route.js': blockOf('js', 'function POST'), 'main.js': NEXT },
    () => [process.execPath, 'main.js'],
  ],
  [
    'PHP',
    {
      'login.php': "<?php function customerId(): ?string { return $_COOKIE['customer'] ?? null; }",
      'wishlist.php': blockOf('php', '<?php'),
    },
    (port) => ['php', '-S', `127.0.0.1:${port}`, 'wishlist.php'],
  ],
];

export async function storefrontPage(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const { shop, app, service } = fixtures;
  const page = (part: string) =>
    blockOf('html', part).replaceAll('https://wishmeter.example', service).replaceAll('pk_…', PUBLISHABLE);
  const url = shop.show('/storefront', page('id="heart"'));
  const isSaved = async (page: Page) =>
    (await page.locator('#heart').getAttribute('aria-pressed')) === 'true';
  const itemsOf = async (page: Page) => app.shop.items({ sessionId: await sessionOf(page) });

  await t.test('the kit’s three tags count and save', async (t) => {
    const tab = await (await visit(t, fixtures)).open(shop.show('/three-tags', page('smart-save="3"')));
    await tab.getByRole('button', { name: 'Wishlist: Red shoe' }).click();
    await tab.locator('wishlist-heart[state="saved"]').waitFor();
    const sessionId = await sessionOf(tab);
    t.match(await app.shop.items({ sessionId }), [{ productId: '1001', variantId: '2002', price: '49.90' }]);
    t.equal(await tab.evaluate("wishmeter.count('red-shoe')"), 1);
  });

  await t.test('the documented heart saves and removes with only a publishable key', async (t) => {
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

  await t.test('the documented Smart Save saves at the third visit, and not what was removed', async (t) => {
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

  for (const [at, [name, files, command]] of BACKENDS.entries())
    await t.test(
      `the backend (${name}) takes wishlists of the logged-in customer alone`,
      name === 'PHP' ? needsPrograms('php') : {},
      async (t) => {
        const dir = await tempDir(t);
        await symlink(resolve('node_modules'), join(dir, 'node_modules'));
        for (const [file, text] of Object.entries(files)) await writeFile(join(dir, file), text);
        const proxy = await startProxy(t, service.replace('http:', 'redis:'));
        const port = await freePort();
        const [program = '', ...args] = command(port);
        const WISHMETER_URL = proxy.url.replace('redis:', 'http:');
        const backend = spawn(program, args, {
          cwd: dir,
          env: { ...process.env, WISHMETER_URL, WISHMETER_KEY: KEY, PORT: String(port) },
          stdio: 'ignore',
        });
        t.teardown(() => backend.kill());
        const ask = async (
          path: string,
          cookie: string,
          body: unknown,
          more: Record<string, string> = {},
        ) => {
          const headers = { cookie, 'content-type': 'application/json', ...more };
          const sent = { method: 'POST', headers, body: JSON.stringify(body) };
          const answer = await fetch(`http://127.0.0.1:${port}/wishlist${path}`, sent);
          return { status: answer.status, text: await answer.text() };
        };
        await until('the backend listens', () =>
          ask('/item/list', '', {}).then(
            () => true,
            () => false,
          ),
        );
        const sessionId = `at-the-shop-${name}`;
        const [own, foreign] = [`900${at}`, `901${at}`];
        const cookie = `customer=${own}`;
        const identity = { sessionId, customerId: foreign };
        t.equal((await ask('/item/list', '', { identity })).status, 401, 'a guest');
        t.equal((await ask('/profile', cookie, { identity })).status, 404, 'another path');
        const plain = await ask('/item/list', cookie, { identity }, { 'content-type': 'text/plain' });
        t.equal(plain.status, 404, 'what other sites can send');
        await app.shop.add({ sessionId });
        const { status, text } = await ask('/item/list', cookie, { identity });
        t.equal(status, 200);
        t.equal(JSON.parse(text).items.length, 1, "what the guest saved is the customer's");
        const itemsOfOwn = async () => (await app.shop.items({ customerId: own })).length;
        t.equal(await itemsOfOwn(), 1, 'also where nothing else is known of the session');
        const key = { 'idempotency-key': `click-${name}` };
        const added = { ...ITEM, identity, productId: '9' };
        t.equal((await ask('/item/add', cookie, added, key)).status, 200);
        t.equal(await itemsOfOwn(), 2);
        const reused = await ask('/item/add', cookie, { ...added, productId: '10' }, key);
        t.match(reused.text, /idempotency_key_reused/, 'one Idempotency-Key a click');
        t.same(await app.shop.items({ customerId: foreign }), [], 'the customer whom the body names');
        for (const body of [[], null, 'text', 7])
          t.equal((await ask('/item/list', cookie, body)).status, 200, 'a body without an identity');

        proxy.retarget(`redis://127.0.0.1:${await freePort()}`);
        proxy.dropAll();
        for (const _ of ['first', 'second'])
          t.equal((await ask('/item/list', cookie, {})).status, 502, 'the service is away');
      },
    );
}

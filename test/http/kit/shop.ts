// Pages of a shop that uses the kit, and what tests read from them.

import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { type BrowserFixtures, PUBLISHABLE, sessionOf, visit } from '../../harness/storefront.js';

export const kitTag = (service: string, more = '', key = PUBLISHABLE): string =>
  `<script async src="${service}/wishlist.js" ${key && `data-key="${key}"`} ${more}></script>`;

/** What a shop has in its style sheet: a heart's room, before the script is there. */
export const ROOM =
  '<style>wishlist-heart{display:inline-block;min-width:var(--wl-size,44px);height:var(--wl-size,44px);vertical-align:middle}wishlist-heart[popular]{min-width:calc(var(--wl-size,44px) + 5ch)}</style>';

export const SHOE = 'data-product-handle="shoe-1"';

export const heartTag = (id: number | string, more = ''): string =>
  `<wishlist-heart product-id="${id}" variant-id="${id}1" handle="shoe-${id}" name="Shoe ${id}" price="49.90" currency="EUR" ${more}></wishlist-heart>`;

export const pressed = (page: Page, id: number | string = 1) =>
  page.locator(`wishlist-heart[product-id="${id}"] button`).first().getAttribute('aria-pressed');

export async function becomes(page: Page, state: string, id: number | string = 1): Promise<void> {
  await page
    .locator(`wishlist-heart[product-id="${id}"][state="${state}"]`)
    .first()
    .waitFor({ state: 'attached' });
}

export const press = (page: Page, id: number | string = 1) =>
  page.locator(`wishlist-heart[product-id="${id}"] button`).first().press('Enter');

export const LISTENER = `<script>window.seen = [];
  for (const name of ['ready', 'change', 'add', 'remove', 'cart', 'share', 'error', 'state'])
    addEventListener('wishlist:' + name, (event) => seen.push([name, event.detail]));</script>`;

export const eventsOf = (page: Page, name: string) =>
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  page.evaluate<any[]>(`seen.filter(([name]) => name === '${name}').map(([, detail]) => detail)`);

export const showKit = ({ shop, service }: BrowserFixtures, path: string, body: string, more = '') =>
  shop.show(path, `${ROOM}${LISTENER}${body}${kitTag(service, more)}`);

export const openKit = async (t: Test, fixtures: BrowserFixtures, ...page: [string, string, string?]) =>
  (await visit(t, fixtures)).open(showKit(fixtures, ...page));

export async function whyOff(page: Page): Promise<string | null> {
  await becomes(page, 'off');
  return page.locator('wishlist-heart').first().getAttribute('why');
}

export const rows = (page: Page) => page.locator('wishlist-page [part~=row]');

/** Saves products for the visitor of a page, which is loaded again. @returns the session */
export async function fill(
  { app }: BrowserFixtures,
  page: Page,
  ids: readonly number[],
  prices: readonly string[] = [],
) {
  const sessionId = await sessionOf(page);
  for (const [i, id] of ids.entries()) {
    const product = { productId: `${id}`, variantId: `${id}1`, productHandle: `shoe-${id}` };
    const shown = { productTitle: `Shoe ${id}`, price: prices[i] ?? '79.90', currencyCode: 'EUR' };
    await app.shop.add({ sessionId }, { ...product, ...shown });
  }
  await page.evaluate('wishmeter.refresh()');
  await page.reload();
  await rows(page).first().waitFor();
  return sessionId;
}

const AXE = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');

export async function faultsOf(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(
    "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html)))",
  );
}

// The dashboard in a browser, over the small shop's month.

import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { Test } from 'tap';
import { type Fixtures, RANGE, TOKEN } from './fixtures.js';

export const DRAWN = 'main:not([hidden]):not(:has([data-panel]:not([aria-busy="false"])))';
/** A browser on a busy machine takes its time. */
const WAIT_LIMIT_MS = 45_000;

export interface PageFixtures extends Fixtures {
  readonly browser: Browser;
}

export async function newPage(t: Test, browser: Browser, url: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, ...options });
  context.setDefaultTimeout(WAIT_LIMIT_MS);
  t.teardown(() => context.close());
  const page = await context.newPage();
  const said: string[] = [];
  page.on('console', (message) => message.type() === 'error' && said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  const open = (query = RANGE) => page.goto(`${url}/?${query}#token=${TOKEN}`);
  return { page, open, said };
}

export async function openDrawn(
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
  query?: string,
) {
  const { page, open, said } = await newPage(t, browser, url, options);
  const foreign: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) foreign.push(request.url());
  });
  await open(query);
  await page.waitForSelector(DRAWN);
  return { page, foreign, said };
}

export const show = (page: Page) => page.getByRole('button', { name: 'Show', exact: true });
export const tile = (page: Page, key: string) => page.locator(`[data-figure="${key}"] .value`).textContent();
/** @param name of the panel, or of its part */
export const section = (page: Page, name: string) =>
  page.locator(`[data-part="${name}"], [data-panel="${name}"]:not([data-part])`);
export const cells = (page: Page, panel: string, column: number) =>
  section(page, panel).locator(`tbody td:nth-child(${column})`).allTextContents();

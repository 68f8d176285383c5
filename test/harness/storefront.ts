// The beacon's surroundings for tests: a service, a shop of another origin whose pages carry the tag, and
// visitors with a real browser.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { Test } from 'tap';
import { startApp, type TestApp, TRUSTED, withQuery } from './app.js';
import { findChromium, launchChromium } from './chromium.js';
import { startTestRedis, type TestRedis } from './redis.js';
import { openShop, type Shop } from './shop.js';

export const PUBLISHABLE = 'pk_test_0123456789abcdef';
export const VISIT_PATH = '/product/visit';
/** What a page evaluates to tell the id of its visitor. */
export const STORED = "localStorage.getItem('wishmeter_session')";

/** A browser that starts on a busy machine takes its time. */
const DEADLINE_MS = 15_000;

export interface World {
  readonly redis: TestRedis;
  readonly shop: Shop;
  /** Settings with which a service knows the shop. */
  readonly env: Readonly<Record<string, string>>;
  /** It takes no visit without a key (VISIT_ACCESS): a count proves that key and origin were taken. */
  readonly app: TestApp;
  /** URL of `app`. */
  readonly service: string;
  readonly browser: Browser;
  readonly chromium: string;
}

/** Runs tests in Chromium; skips them where there is none. */
export async function inChromium(t: Test, tests: (t: Test, world: World) => Promise<void>): Promise<void> {
  const found = findChromium();
  if ('missing' in found) return void t.test('in Chromium', { skip: found.missing }, () => {});
  await t.test('in Chromium', async (t) => {
    const redis = await startTestRedis();
    t.teardown(() => redis.stop());
    const shop = await openShop(t);
    const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: shop.origin };
    const app = await startApp(t, redis, { env: { ...env, VISIT_ACCESS: 'key' } });
    const browser = await launchChromium(t, found.file);
    const service = urlOf(app);
    await tests(t, { redis, shop, env, app, service, browser, chromium: found.file });
  });
}

export const urlOf = ({ port }: TestApp) => `http://127.0.0.1:${port}`;

/** The tag as a shop writes it. */
export function tag(service: string, handle = '', key = PUBLISHABLE): string {
  const attributes = [key && `data-key="${key}"`, handle && `data-product-handle="${handle}"`];
  return `<script defer src="${service}/beacon.js" ${attributes.join(' ')}></script>`;
}

interface Sent {
  readonly kind: string;
  readonly type: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  readonly body: any;
}

/** A visitor with a browser profile of their own. `t` fails where a page of theirs sees an error. */
export async function visit(t: Test, { browser }: World, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options);
  const sent: (Sent & { readonly method: string })[] = [];
  // Errors that nobody caught, and promises that nobody saw rejected.
  context.on('weberror', (error) => t.fail(`a page saw an error: ${error.error().message}`));
  context.on('request', (request) => {
    if (!request.url().includes(VISIT_PATH)) return;
    sent.push({
      method: request.method(),
      kind: request.resourceType(),
      type: request.headers()['content-type'],
      body: request.postDataJSON(),
    });
  });
  t.teardown(() => context.close());
  return {
    sent: (method: string): Sent[] =>
      sent.filter((one) => one.method === method).map(({ kind, type, body }) => ({ kind, type, body })),
    offline: () => context.setOffline(true),
    /** Loads a page in a new tab. @param end where it leads by itself */
    async open(url: string, end = url): Promise<Page> {
      const page = await context.newPage();
      await page.goto(url, { waitUntil: end === url ? 'load' : 'commit' });
      await page.waitForURL(end);
      return page;
    },
  };
}

export const sessionOf = (page: Page) => page.evaluate<string>(STORED);

export async function countOf(app: TestApp, sessionId: string, productHandle: string): Promise<number> {
  return (await app.get(withQuery(VISIT_PATH, { sessionId, productHandle }), TRUSTED)).json.count;
}

/** Visits that arrived, by the status of their answer. */
export async function answers(app: TestApp): Promise<Record<string, number>> {
  const { text } = await app.get('/metrics');
  const lines = text.matchAll(
    /^wishmeter_http_answers_total\{operation="post \/product\/visit",status="(\d+)"\} (\d+)/gm,
  );
  return Object.fromEntries([...lines].map(([, status, count]) => [status, Number(count)]));
}

/** Waits until `probe` says `expected`, and a moment longer: it must not go on to something else. */
export async function eventually<T>(t: Test, probe: () => Promise<T>, expected: T): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while ((await probe()) !== expected && Date.now() < deadline) await sleep(20);
  await sleep(100);
  t.equal(await probe(), expected);
}

// The beacon's surroundings for tests: a service, a shop of another origin whose pages carry the tag, and
// visitors with a real browser.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, BrowserContextOptions, Page, Request } from 'playwright-core';
import type { Test } from 'tap';
import { startApp, type TestApp, TRUSTED, withQuery } from './app.js';
import { findChromium, launchChromium } from './chromium.js';
import { needs } from './needs.js';
import { startTestRedis, type TestRedis } from './redis.js';
import { LOGIN, openShop, type Shop } from './shop-site.js';

export const PUBLISHABLE = 'pk_test_0123456789abcdef';
export const VISIT_PATH = '/product/visit';
/** What a page evaluates to tell what is stored of its visitor. */
export const STORED = "localStorage.getItem('wishmeter_session')";

/** A browser on a busy machine takes its time. */
const DEADLINE_MS = 60_000;

export interface BrowserFixtures {
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
export async function inChromium(
  t: Test,
  tests: (t: Test, fixtures: BrowserFixtures) => Promise<void>,
): Promise<void> {
  const found = findChromium();
  if ('missing' in found) return void t.test('in Chromium', needs(found.missing), () => {});
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

/** The tag as a shop writes it. @param more other attributes */
export function tag(service: string, handle = '', key = PUBLISHABLE, more = 'defer'): string {
  const attributes = [key && `data-key="${key}"`, handle && `data-product-handle="${handle}"`, more];
  return `<script src="${service}/beacon.js" ${attributes.join(' ')}></script>`;
}

/** The stub as docs/shopify has it: calls before the script arrives wait in it. */
export const STUB = /<script>\s*window\.wishmeter[\s\S]*?<\/script>/.exec(
  readFileSync('docs/shopify/beacon.liquid', 'utf8'),
)?.[0] as string;

interface Sent {
  readonly path: string;
  readonly type: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  readonly body: any;
  /** Its answer's; undefined while there is none */
  readonly status: number | undefined;
}

export type Visitor = Awaited<ReturnType<typeof visit>>;

/** A visitor with a browser profile of their own. `t` fails where a page of theirs sees an error. */
export async function visit(
  t: Test,
  { browser, shop }: BrowserFixtures,
  options: BrowserContextOptions = {},
) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(DEADLINE_MS);
  const requests: Request[] = [];
  // Uncaught errors, and unhandled rejections.
  context.on('weberror', (error) => t.fail(`a page saw an error: ${error.error().message}`));
  context.on('request', (request) => {
    if (request.method() === 'POST' && request.url().includes(VISIT_PATH)) requests.push(request);
  });
  t.teardown(() => context.close());
  return {
    context,
    /** @param customerId the customer who is logged in at the shop from now on; empty for a guest */
    login: (customerId: string) => context.addCookies([{ name: LOGIN, value: customerId, url: shop.origin }]),
    /** What its pages have sent to the service, without preflights. */
    sent: (): Promise<Sent[]> =>
      Promise.all(
        requests.map(async (request) => {
          const { pathname, search } = new URL(request.url());
          return {
            path: pathname + search,
            type: request.headers()['content-type'],
            body: request.postDataJSON(),
            status: request.failure() === null ? (await request.response())?.status() : undefined,
          };
        }),
      ),
    /** Loads a page in a new tab. @param end where it leads by itself */
    async open(url: string, end = url): Promise<Page> {
      const page = await context.newPage();
      await page.goto(url, { waitUntil: end === url ? 'load' : 'commit' });
      await page.waitForURL(end);
      return page;
    },
  };
}

export const sessionOf = (page: Page) => page.evaluate<string>('wishmeter.session()');

export async function countOf(app: TestApp, sessionId: string, productHandle: string): Promise<number> {
  return (await app.get(withQuery(VISIT_PATH, { sessionId, productHandle }), TRUSTED)).json.count;
}

/** Waits until `probe` says `expected`. */
export async function eventually<T>(t: Test, probe: () => Promise<T>, expected: T): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while ((await probe()) !== expected && Date.now() < deadline) await sleep(20);
  t.equal(await probe(), expected);
}

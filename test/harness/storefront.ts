// The world of the beacon for tests: a service, a shop of another origin whose pages have the tag, and
// visitors in Chromium.

import { readFileSync } from 'node:fs';
import type { Browser, BrowserContext, BrowserContextOptions, Page, Request } from 'playwright-core';
import type { Test } from 'tap';
import { startApp, type TestApp, TRUSTED, withQuery } from './app.js';
import { findChromium, launchChromium } from './chromium.js';
import { needs } from './needs.js';
import { startTestRedis, type TestRedis } from './redis.js';
import { LOGIN, openShop, type Shop } from './shop-site.js';
import { until } from './until.js';

export const PUBLISHABLE = 'pk_test_0123456789abcdef';
export const VISIT_PATH = '/product/visit';
/** An expression for pages: the stored session of their visitor. */
export const STORED = "localStorage.getItem('wishmeter_session')";

/** Long, because a browser on a busy machine is slow. */
const DEADLINE_MS = 60_000;

export interface BrowserFixtures {
  readonly redis: TestRedis;
  readonly shop: Shop;
  readonly env: Readonly<Record<string, string>>;
  /**
   * VISIT_ACCESS=key: the service refuses a visit without a key, so a count proves that it accepted key and
   * origin.
   */
  readonly app: TestApp;
  readonly service: string;
  readonly browser: Browser;
  readonly withBfcache: (t: Test) => Promise<Browser>;
  readonly chromium: string;
}

export async function inChromium(t: Test, tests: (t: Test, fixtures: BrowserFixtures) => Promise<void>) {
  const found = findChromium();
  if (found.missing !== undefined) return void t.test('in Chromium', needs(found.missing), () => {});
  await t.test('in Chromium', async (t) => {
    const redis = await startTestRedis(t);
    const shop = await openShop(t);
    const env = { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: shop.origin };
    const app = await startApp(t, redis, { env: { ...env, VISIT_ACCESS: 'key' } });
    const browser = await launchChromium(t, found.shell);
    const service = urlOf(app);
    const withBfcache = (t: Test) => launchChromium(t, found.file);
    await tests(t, { redis, shop, env, app, service, browser, withBfcache, chromium: found.file });
  });
}

export const urlOf = ({ port }: TestApp) => `http://127.0.0.1:${port}`;

export function tag(service: string, handle = '', key = PUBLISHABLE, more = 'defer'): string {
  const attributes = [key && `data-key="${key}"`, handle && `data-product-handle="${handle}"`, more];
  return `<script src="${service}/beacon.js" ${attributes.join(' ')}></script>`;
}

/** The stub in docs/shopify, which keeps calls until the script arrives. */
export const STUB = /<script>\s*window\.wishmeter[\s\S]*?<\/script>/.exec(
  readFileSync('docs/shopify/beacon.liquid', 'utf8'),
)?.[0] as string;

interface Sent {
  readonly path: string;
  readonly type: string | undefined;
  readonly key: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  readonly body: any;
  readonly status: number | undefined;
}

export interface Visitor {
  readonly context: BrowserContext;
  /** Warnings in the console of the visitor's pages, and messages of the beacon there. */
  readonly warnings: readonly string[];
  readonly infos: readonly string[];
  /** @param customerId the customer who is logged in at the shop after this; empty for a guest */
  login(customerId: string): Promise<void>;
  /**
   * Requests that the visitor's pages have posted to paths with this text, by default visits; without
   * preflights.
   */
  sent(to?: string): Promise<Sent[]>;
  /**
   * Loads a page, the first one in the open tab, later ones in a new tab. @param end the URL that the page
   * itself goes to
   */
  open(url: string, end?: string): Promise<Page>;
}

/** Browser profiles that successive visitors share, because to open one takes longer than most tests. */
const kept = new WeakMap<Browser, Profile>();

/**
 * A visitor without stored data. @param options of a profile of their own; `{}` if the test changes the
 * profile for good
 */
export async function visit(t: Test, { browser, shop }: BrowserFixtures, options?: BrowserContextOptions) {
  let profile = options === undefined ? kept.get(browser) : undefined;
  if (profile === undefined) {
    profile = new Profile(await browser.newContext(options), shop.origin);
    if (options === undefined) kept.set(browser, profile);
    else {
      const { context } = profile;
      t.teardown(() => context.close());
    }
  }
  return await profile.visitor(t);
}

class Profile {
  readonly context: BrowserContext;
  readonly #origin: string;
  #t: Test | undefined;
  #requests: Request[] = [];
  #warnings: string[] = [];
  #infos: string[] = [];

  constructor(context: BrowserContext, origin: string) {
    this.context = context;
    this.#origin = origin;
    context.setDefaultTimeout(DEADLINE_MS);
    context.on('weberror', (error) => this.#t?.fail(`a page saw an error: ${error.error().message}`));
    context.on('request', (request) => request.method() === 'POST' && this.#requests.push(request));
    context.on('console', (message) => {
      if (message.type() === 'warning') this.#warnings.push(message.text());
      if (message.type() === 'info') this.#infos.push(message.text());
    });
  }

  async visitor(t: Test): Promise<Visitor> {
    this.#t = t;
    const { context } = this;
    let [first, ...others] = context.pages();
    if (first !== undefined) {
      await Promise.all([
        ...others.map((page) => page.close()),
        context.clearCookies(),
        context.setOffline(false),
      ]);
      await first.goto('about:blank');
      const devtools = await context.newCDPSession(first);
      await devtools.send('Storage.clearDataForOrigin', { origin: this.#origin, storageTypes: 'all' });
      await devtools.detach();
    }
    this.#requests = [];
    this.#warnings = [];
    this.#infos = [];
    const [requests, warnings, infos] = [this.#requests, this.#warnings, this.#infos];
    return {
      context,
      warnings,
      infos,
      login: (customerId) => context.addCookies([{ name: LOGIN, value: customerId, url: this.#origin }]),
      sent: (to = VISIT_PATH) => Promise.all(requests.filter((one) => one.url().includes(to)).map(sentBy)),
      async open(url, end = url) {
        const page = first ?? (await context.newPage());
        first = undefined;
        await page.goto(url, { waitUntil: end === url ? 'load' : 'commit' });
        await page.waitForURL(end);
        return page;
      },
    };
  }
}

async function sentBy(request: Request): Promise<Sent> {
  const { pathname, search } = new URL(request.url());
  return {
    path: pathname + search,
    type: request.headers()['content-type'],
    key: request.headers()['idempotency-key'],
    body: request.postDataJSON(),
    status: request.failure() === null ? (await request.response())?.status() : undefined,
  };
}

export const sessionOf = (page: Page) => page.evaluate<string>('wishmeter.session()');

export async function countOf(app: TestApp, sessionId: string, productHandle: string): Promise<number> {
  return (await app.get(withQuery(VISIT_PATH, { sessionId, productHandle }), TRUSTED)).json.count;
}

export async function eventually<T>(t: Test, probe: () => Promise<T>, expected: T): Promise<void> {
  await until(`it is ${expected}`, async () => (await probe()) === expected);
  t.pass();
}

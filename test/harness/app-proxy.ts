// Callers without a secret key: a browser with a publishable one, and Shopify's app proxy, which signs its requests.

import { createHmac } from 'node:crypto';
import { SHOP_DOMAIN, type TestApp, withQuery } from './app.js';
import type { Answer, Headers } from './client.js';
import type { Rewrite } from './shop-site.js';

export const SECRET = 'shpss_0123456789abcdef';
export const BROWSER = { 'x-api-key': 'pk_test_0123456789abcdef', origin: 'https://shop.example' };
export const SHOPPERS = {
  SHOPIFY_SECRET: SECRET,
  PUBLISHABLE_KEYS: BROWSER['x-api-key'],
  ALLOWED_ORIGINS: BROWSER.origin,
};
/** The customer id that the proxy signs for a guest. */
export const LOGGED_OUT = '';

type Parameters = Readonly<Record<string, string>>;

/** A query with a signature of this moment. It can not repeat a name. */
export function signed(parameters: Parameters, secret = SECRET): Record<string, string> {
  const all: Record<string, string> = {
    shop: SHOP_DOMAIN,
    path_prefix: '/apps/wishmeter',
    timestamp: String(Math.floor(Date.now() / 1000)),
    ...parameters,
  };
  const text = Object.entries(all)
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join('');
  return { ...all, signature: createHmac('sha256', secret).update(text).digest('hex') };
}

export function proxied(path: string, parameters: Parameters, secret = SECRET): string {
  return withQuery(path, signed(parameters, secret));
}

/**
 * Changes a request to the proxy under `prefix` into the proxy's request to the service, for
 * test/harness/shop-site.ts.
 */
export function throughProxy(prefix: string): Rewrite {
  return (url, customerId) => {
    const { pathname, searchParams } = new URL(url, 'http://shop');
    return proxied(pathname.slice(prefix.length), {
      ...Object.fromEntries(searchParams),
      path_prefix: prefix,
      logged_in_customer_id: customerId,
    });
  };
}

export function postProxied(
  app: TestApp,
  path: string,
  customerId: string,
  body: unknown,
  headers: Headers = {},
): Promise<Answer> {
  return app.post(proxied(path, { logged_in_customer_id: customerId }), body, {
    'content-type': 'application/json',
    ...headers,
  });
}

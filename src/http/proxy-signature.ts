// Shopify's app-proxy signature: a hexadecimal HMAC-SHA256 with the app's secret. The signed text is all other query
// parameters, decoded, as `name=value` (repeated values joined by commas), sorted, without separators.
// https://shopify.dev/docs/apps/build/online-store/app-proxies/authenticate-app-proxies

import { createHmac, timingSafeEqual } from 'node:crypto';
import { isOtherShop } from './shop-domain.js';

const MAX_AGE_MS = 90_000;
/** Parameters that we read. Each may occur only once. */
const READ = ['signature', 'shop', 'timestamp', 'logged_in_customer_id'];
const LOGIN = 'logged_in_customer_id=';
/**
 * Finds every possible timestamp in the signed text: 10 digits before the end, or before a parameter that sorts after
 * `timestamp`.
 */
const TIMES = /timestamp=(\d{10})(?![\0-s])/g;
/** Finds every possible shop in the signed text. */
const SHOPS = /shop=([a-z0-9][a-z0-9-]*\.myshopify\.com)/gi;

export function hasSignature(query: string): boolean {
  return /(^|&)signature=/.test(query);
}

/** `shop`: another shop signed, or may have. */
export type SignatureFault = 'unset' | 'wrong' | 'stale' | 'shop';

interface Signers {
  readonly secrets: readonly string[];
  readonly shopDomain: string;
}

export function verifyProxySignature(
  query: string,
  { secrets, shopDomain }: Signers,
  now: number,
): URLSearchParams | SignatureFault {
  if (secrets.length === 0) return 'unset';
  const parameters = new URLSearchParams(query);
  const text = signedText(parameters);
  if (!isUnambiguous(parameters, text)) return 'wrong';
  const signature = parameters.get('signature') ?? '';
  if (!/^[0-9a-f]{64}$/.test(signature)) return 'wrong';
  const given = Buffer.from(signature, 'hex');
  const matches = secrets.filter((secret) => timingSafeEqual(given, sign(text, secret)));
  if (matches.length === 0) return 'wrong';
  const timestamp = parameters.get('timestamp') ?? '';
  if (!/^\d{1,15}$/.test(timestamp) || !/^\d*$/.test(parameters.get('logged_in_customer_id') ?? ''))
    return 'wrong';
  const isEarly = Number(timestamp) * 1000 - now > MAX_AGE_MS;
  const oldest = Math.min(Number(timestamp), ...Array.from(text.matchAll(TIMES), ([, time]) => Number(time)));
  if (isEarly || now - oldest * 1000 > MAX_AGE_MS) return 'stale';
  const shops = [parameters.get('shop'), ...Array.from(text.matchAll(SHOPS), ([, shop]) => shop)];
  return shops.some((shop) => isOtherShop(shop, shopDomain)) ? 'shop' : parameters;
}

/**
 * The signed text has no separators: `a=1logged_in_customer_id=300` may be one parameter or two. So
 * `logged_in_customer_id=` may stand in it only as that parameter, the oldest possible timestamp counts, and no possible
 * shop may be another.
 */
function isUnambiguous(parameters: URLSearchParams, text: string): boolean {
  if (READ.some((name) => parameters.getAll(name).length > 1)) return false;
  return text.split(LOGIN).length - 1 === parameters.getAll('logged_in_customer_id').length;
}

function signedText(parameters: URLSearchParams): string {
  const pairs: string[] = [];
  for (const name of new Set(parameters.keys())) {
    if (name !== 'signature') pairs.push(`${name}=${parameters.getAll(name).join(',')}`);
  }
  return pairs.sort().join('');
}

function sign(text: string, secret: string): Buffer {
  return createHmac('sha256', secret).update(text).digest();
}

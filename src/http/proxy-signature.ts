// Shopify's app-proxy signature: hex HMAC-SHA256, under the app's secret, of all other query parameters,
// decoded, as `name=value` (repeated values joined by commas), sorted, without separator.
// https://shopify.dev/docs/apps/build/online-store/app-proxies/authenticate-app-proxies

import { createHmac, timingSafeEqual } from 'node:crypto';

const MAX_AGE_MS = 90_000;
const RESERVED = ['signature', 'shop', 'path_prefix', 'timestamp', 'logged_in_customer_id'];

/** Whether a query has a parameter that is named `signature`. @param query undecoded, without the question mark */
export function hasSignature(query: string): boolean {
  return /(^|&)signature=/.test(query);
}

/** Why a query is not to be trusted: there is no secret to check it with, it is not right, or no longer (or not yet). */
export type SignatureFault = 'unset' | 'wrong' | 'stale';

/**
 * @param query undecoded, without the question mark
 * @param secrets any of which may have signed it
 * @param now milliseconds since 1970
 * @returns the parameters where the signature is right and at most 90 s old (or early), else what is wrong
 */
export function verifyProxySignature(
  query: string,
  secrets: readonly string[],
  now: number,
): URLSearchParams | SignatureFault {
  if (secrets.length === 0) return 'unset';
  const parameters = new URLSearchParams(query);
  if (!isUnambiguous(parameters)) return 'wrong';
  const signature = parameters.get('signature') ?? '';
  if (!/^[0-9a-f]{64}$/.test(signature)) return 'wrong';
  const given = Buffer.from(signature, 'hex');
  const matches = secrets.filter((secret) => timingSafeEqual(given, sign(parameters, secret)));
  if (matches.length === 0) return 'wrong';
  const timestamp = parameters.get('timestamp') ?? '';
  if (!/^\d{1,15}$/.test(timestamp) || !/^\d*$/.test(parameters.get('logged_in_customer_id') ?? ''))
    return 'wrong';
  return Math.abs(now - Number(timestamp) * 1000) <= MAX_AGE_MS ? parameters : 'stale';
}

/**
 * The signed text has no separators: that of `a=1logged_in_customer_id=300m=` and of an empty
 * `logged_in_customer_id` is also that of `a=1`, `logged_in_customer_id=300` and an `m` that has the rest. So the
 * names that Shopify gives a meaning to may stand nowhere but in their own place, and there once.
 */
function isUnambiguous(parameters: URLSearchParams): boolean {
  for (const [name, value] of parameters) {
    if (RESERVED.some((reserved) => value.includes(`${reserved}=`))) return false;
    if (RESERVED.includes(name)) {
      if (parameters.getAll(name).length > 1) return false;
    } else if (name.endsWith('timestamp') || name.endsWith('logged_in_customer_id')) return false;
  }
  return true;
}

function sign(parameters: URLSearchParams, secret: string): Buffer {
  const pairs: string[] = [];
  for (const name of new Set(parameters.keys())) {
    if (name !== 'signature') pairs.push(`${name}=${parameters.getAll(name).join(',')}`);
  }
  return createHmac('sha256', secret).update(pairs.sort().join('')).digest();
}

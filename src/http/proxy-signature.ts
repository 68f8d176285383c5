// Shopify's app-proxy signature: hex HMAC-SHA256, under the app's secret, of all other query parameters,
// decoded, as `name=value` (repeated values joined by commas), sorted, without separator.
// https://shopify.dev/docs/apps/build/online-store/app-proxies/authenticate-app-proxies

import { createHmac, timingSafeEqual } from 'node:crypto';

const MAX_AGE_MS = 90_000;
/** Were one of these given twice, the signature would be right for a text that reads otherwise. */
const ONCE = ['signature', 'shop', 'timestamp', 'logged_in_customer_id'];

/**
 * @param query undecoded, without the question mark
 * @param secret the app's; with an empty one nothing is valid
 * @param now milliseconds since 1970
 * @returns the parameters where the signature is right and at most 90 s old (or early), else undefined
 */
export function verifyProxySignature(
  query: string,
  secret: string,
  now: number,
): URLSearchParams | undefined {
  if (secret === '') return undefined;
  const parameters = new URLSearchParams(query);
  if (ONCE.some((name) => parameters.getAll(name).length > 1)) return undefined;
  const signature = parameters.get('signature') ?? '';
  if (!/^[0-9a-f]{64}$/.test(signature)) return undefined;
  if (!timingSafeEqual(Buffer.from(signature, 'hex'), sign(parameters, secret))) return undefined;
  const age = now - Number(parameters.get('timestamp') ?? Number.NaN) * 1000;
  return Math.abs(age) <= MAX_AGE_MS ? parameters : undefined;
}

function sign(parameters: URLSearchParams, secret: string): Buffer {
  const pairs: string[] = [];
  for (const name of new Set(parameters.keys())) {
    if (name !== 'signature') pairs.push(`${name}=${parameters.getAll(name).join(',')}`);
  }
  return createHmac('sha256', secret).update(pairs.sort().join('')).digest();
}

// Shopify's app-proxy signature as a rule: the vector of Shopify's documentation, and what is refused.

import { createHmac } from 'node:crypto';
import t from 'tap';
import { verifyProxySignature } from '../../src/http/proxy-signature.js';

const SECRET = 'hush';
const AT = 1_317_327_555;
const QUERY = `extra=1&extra=2&shop=shop-name.myshopify.com&logged_in_customer_id=1&path_prefix=%2Fapps%2Fawesome_reviews&timestamp=${AT}`;
const SIGNATURE = '4c68c8624d737112c91818c11017d24d334b524cb5c2b8ba08daa056f7395ddb';
const at = AT * 1000;

t.test("the vector of Shopify's documentation is right", async (t) => {
  const parameters = verifyProxySignature(`${QUERY}&signature=${SIGNATURE}`, SECRET, at);
  t.equal(parameters?.get('logged_in_customer_id'), '1');
  t.ok(verifyProxySignature(`signature=${SIGNATURE}&${QUERY}`, SECRET, at), 'wherever it stands');
});

t.test('what is not signed as it stands is refused', async (t) => {
  const signed = `${QUERY}&signature=${SIGNATURE}`;
  const wrong: Record<string, string> = {
    'another parameter': `${signed}&sessionId=s`,
    'another value': signed.replace('logged_in_customer_id=1', 'logged_in_customer_id=2'),
    'one value less': signed.replace('extra=1&', ''),
    'another order of repeated values': signed.replace('extra=1&extra=2', 'extra=2&extra=1'),
    'another signature': signed.replace(/.$/, 'a'),
    'in capitals': `${QUERY}&signature=${SIGNATURE.toUpperCase()}`,
    'no signature': QUERY,
    'an empty one': `${QUERY}&signature=`,
    'a repeated one': `${signed}&signature=${SIGNATURE}`,
  };
  for (const [name, query] of Object.entries(wrong))
    t.equal(verifyProxySignature(query, SECRET, at), undefined, name);
  t.equal(verifyProxySignature(signed, 'another', at), undefined, 'another secret');
  t.equal(verifyProxySignature(signed, '', at), undefined, 'no secret');
});

t.test(
  'a parameter that must be there once is refused twice, even where the signature is right',
  async (t) => {
    for (const name of ['shop', 'timestamp', 'logged_in_customer_id']) {
      const parameters = new URLSearchParams(QUERY);
      parameters.append(name, parameters.get(name) ?? '');
      const text = [...new Set(parameters.keys())]
        .map((key) => `${key}=${parameters.getAll(key).join(',')}`)
        .sort()
        .join('');
      parameters.set('signature', createHmac('sha256', SECRET).update(text).digest('hex'));
      t.equal(verifyProxySignature(`${parameters}`, SECRET, at), undefined, name);
    }
  },
);

t.test('it holds for 90 s, from both sides', async (t) => {
  const signed = `${QUERY}&signature=${SIGNATURE}`;
  for (const [seconds, holds] of [
    [90, true],
    [91, false],
    [-90, true],
    [-91, false],
  ] as const) {
    t.equal(verifyProxySignature(signed, SECRET, at + seconds * 1000) !== undefined, holds, `${seconds} s`);
  }
});

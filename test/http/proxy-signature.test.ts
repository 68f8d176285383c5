// Shopify's app-proxy signature as a rule: the vector of Shopify's documentation, and what is refused.

import { createHmac } from 'node:crypto';
import t from 'tap';
import { hasSignature, verifyProxySignature as verify } from '../../src/http/proxy-signature.js';

const SECRET = 'hush';
const AT = 1_317_327_555;
const QUERY = `extra=1&extra=2&shop=shop-name.myshopify.com&logged_in_customer_id=1&path_prefix=%2Fapps%2Fawesome_reviews&timestamp=${AT}`;
const SIGNATURE = '4c68c8624d737112c91818c11017d24d334b524cb5c2b8ba08daa056f7395ddb';
const at = AT * 1000;

/** The parameters, where there is no fault. */
const verifyProxySignature = (query: string, secret: string, now: number): URLSearchParams | undefined => {
  const verified = verify(query, [secret], now);
  return typeof verified === 'string' ? undefined : verified;
};

t.test('it says what is wrong: no secret, another text, another time', async (t) => {
  const signed = `${QUERY}&signature=${SIGNATURE}`;
  t.equal(verify(signed, [], at), 'unset');
  t.equal(verify(signed, ['another'], at), 'wrong');
  t.equal(verify(`${signed}&sessionId=s`, [SECRET], at + 91_000), 'wrong');
  t.equal(verify(signed, [SECRET], at + 91_000), 'stale');
  t.equal(verify(signed, [SECRET], at - 91_000), 'stale');
});

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

// Shopify signs what a guest asks for; the guest then cuts the signed text in other places.
t.test('no other way of cutting the signed text into parameters holds', async (t) => {
  const common = { path_prefix: '/apps/x', shop: 'shop-name.myshopify.com', timestamp: `${AT}` };
  const rest = `logged_in_customer_id=path_prefix=/apps/xshop=shop-name.myshopify.comtimestamp=${AT}`;
  const attacks: Record<string, [asked: Record<string, string>, shown: Record<string, string>]> = {
    'a customer in a value, the rest in another': [
      { a: '1logged_in_customer_id=300m=', ...common, logged_in_customer_id: '' },
      { a: '1', logged_in_customer_id: '300', m: rest },
    ],
    'a customer in a value, the guest in a name': [
      { a: '1logged_in_customer_id=300m', ...common, logged_in_customer_id: '' },
      { a: '1', logged_in_customer_id: '300', mlogged_in_customer_id: '', ...common },
    ],
    'the guest in a name with a sign of equality': [
      { a: '1logged_in_customer_id=300m=', ...common, logged_in_customer_id: '' },
      { a: '1', logged_in_customer_id: '300', 'm=logged_in_customer_id': '', ...common },
    ],
    'a time to come in a value, that of today in a name': [
      { a: `1timestamp=${AT + 9_999}u`, timestamp: `${AT}` },
      { a: '1', timestamp: `${AT + 9_999}`, utimestamp: `${AT}` },
    ],
    'the guest over two parameters': [
      { a: '1logged_in_customer_id=300m=', ...common, logged_in_customer_id: '' },
      { a: '1', logged_in_customer_id: '300', m: 'l', ogged_in_customer_id: '', ...common },
    ],
    'a time to come before that of today, which is in a value': [
      { m: `1timestamp=${AT + 9_999}u`, ...common, logged_in_customer_id: '300' },
      {
        ...{ logged_in_customer_id: '300', m: '1', timestamp: `${AT + 9_999}` },
        upath_prefix: `/apps/xshop=shop-name.myshopify.comtimestamp=${AT}`,
      },
    ],
    'a time to come with a shop and a path of its own': [
      {
        ...{ ...common, logged_in_customer_id: '300' },
        m: `1path_prefix=/apps/xshop=shop-name.myshopify.comtimestamp=${AT + 9_999}u`,
      },
      {
        ...{ ...common, logged_in_customer_id: '300', m: '1', timestamp: `${AT + 9_999}` },
        upath_prefix: `/apps/xshop=shop-name.myshopify.comtimestamp=${AT}`,
      },
    ],
    'a time to come behind that of today': [
      { ...common, logged_in_customer_id: '300', sz: 'x', z: `1timestamp=${AT + 9_999}` },
      {
        ...{ path_prefix: common.path_prefix, shop: common.shop, logged_in_customer_id: '300' },
        ...{ sz: `xtimestamp=${AT}z=1`, timestamp: `${AT + 9_999}` },
      },
    ],
    'a customer swallowed by a value': [
      { a: '', logged_in_customer_id: '300', ...common },
      { a: 'logged_in_customer_id=300', ...common },
    ],
  };
  const text = (parameters: Record<string, string>) =>
    Object.entries(parameters)
      .map(([name, value]) => `${name}=${value}`)
      .sort()
      .join('');
  for (const [name, [asked, shown]] of Object.entries(attacks)) {
    t.equal(text(shown), text(asked), `${name}: one signature for both`);
    const signature = createHmac('sha256', SECRET).update(text(asked)).digest('hex');
    for (const [what, parameters] of Object.entries({ asked, shown })) {
      for (const now of [at, at + 9_999_000]) {
        // What was asked in its own time may be an honest request.
        if (what === 'asked' && now === at) continue;
        const query = `${new URLSearchParams({ ...parameters, signature })}`;
        t.equal(verifyProxySignature(query, SECRET, now), undefined, `${name}: ${what}`);
      }
    }
  }
});

const signedQuery = (parameters: Record<string, string>) => {
  const all = { shop: 'shop-name.myshopify.com', timestamp: `${AT}`, ...parameters };
  const text = Object.entries(all)
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join('');
  const signature = createHmac('sha256', SECRET).update(text).digest('hex');
  return `${new URLSearchParams({ ...all, signature })}`;
};

t.test('an ordinary query is served, whatever its names and values say of shop, time or path', async (t) => {
  const ordinary: Record<string, string>[] = [
    { utm_timestamp: '1' },
    { ref: 'https://x/?shop=1' },
    { return_to: '/search?q=a&timestamp=5' },
    { return_to: `/search?timestamp=${AT - 1_000}&q=a` },
    { q: 'path_prefix=/x signature=y' },
    { xshop: '1', shop_timestamp: '12', path_prefix: '/apps/a=b' },
    { logged_in_customer: '7', logged_in_customer_idx: '7', q: 'logged_in_customer_id' },
    { q: 'shop', 'a=b': 'c=d', utm_signature: 'x' },
  ];
  for (const parameters of ordinary)
    for (const id of ['', '300'])
      t.ok(
        verifyProxySignature(signedQuery({ logged_in_customer_id: id, ...parameters }), SECRET, at),
        JSON.stringify(parameters),
      );
});

t.test('a query that could be read with another customer logged in is refused', async (t) => {
  const ambiguous: Record<string, string>[] = [
    { q: 'a&logged_in_customer_id=7' },
    { xlogged_in_customer_id: '7' },
    { 'logged_in_customer_id=7': '' },
    { a: 'logged_in_', customer_id: '7' },
  ];
  for (const parameters of ambiguous)
    for (const login of [{}, { logged_in_customer_id: '' }])
      t.equal(
        verifyProxySignature(signedQuery({ ...login, ...parameters }), SECRET, at),
        undefined,
        JSON.stringify(parameters),
      );
});

t.test('a customer is digits or absent, a time is digits', async (t) => {
  const holds = (parameters: Record<string, string>) =>
    verifyProxySignature(signedQuery(parameters), SECRET, at) !== undefined;
  for (const id of ['', '1', '7032178376912', '9223372036854775807'])
    t.ok(holds({ logged_in_customer_id: id }), id);
  for (const id of [' ', '1 ', '-1', '1.0', '1e3', 'x', 'gid://shopify/Customer/1', '1,2', '\u0661'])
    t.notOk(holds({ logged_in_customer_id: id }), id);
  for (const time of ['', ' ', `${AT}.0`, `${AT / 10}e1`, `0x${AT.toString(16)}`, ` ${AT}`, `+${AT}`, 'x'])
    t.notOk(holds({ timestamp: time }), time);
});

t.test('a query has a signature where a parameter of that very name is in it', async (t) => {
  for (const query of ['signature=x', 'a=b&signature=x', 'signature=']) t.ok(hasSignature(query), query);
  for (const query of [
    '',
    'utm_signature=x',
    'a=signature=x',
    'a=b&utm_signature=x',
    'signature',
    'Signature=x',
  ])
    t.notOk(hasSignature(query), query);
});

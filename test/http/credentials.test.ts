// Signatures and keys: app-proxy queries, the shop that a request names, several secrets, and comparisons in constant time.

import { createHmac } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { verifyProxySignature as verify } from '../../src/http/proxy-signature.js';
import { KeyRing } from '../../src/key-ring.js';
import { SHOP_DOMAIN, startApp } from '../harness/app.js';
import { proxied } from '../harness/app-proxy.js';
import type { Headers } from '../harness/client.js';
import { startTestRedis } from '../harness/redis.js';
import { JSON_TYPE, orderOf, sign } from './orders.js';

const SECRET = 'hush';
const AT = 1_317_327_555;
const QUERY = `extra=1&extra=2&shop=shop-name.myshopify.com&logged_in_customer_id=1&path_prefix=%2Fapps%2Fawesome_reviews&timestamp=${AT}`;
const SIGNATURE = '4c68c8624d737112c91818c11017d24d334b524cb5c2b8ba08daa056f7395ddb';
const at = AT * 1000;
const SHOP = 'shop-name.myshopify.com';

const signed = `${QUERY}&signature=${SIGNATURE}`;

const verifyProxySignature = (query: string, secret = SECRET, now = at): URLSearchParams | undefined => {
  const verified = verify(query, { secrets: [secret], shopDomain: SHOP }, now);
  return typeof verified === 'string' ? undefined : verified;
};
const sortedText = (parameters: Readonly<Record<string, string>>) =>
  Object.entries(parameters)
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join('');
const signatureOf = (text: string) => createHmac('sha256', SECRET).update(text).digest('hex');

t.test('a proxy signature is valid for 90 s, and a refusal says what is wrong with it', async (t) => {
  const own = { secrets: [SECRET], shopDomain: SHOP };
  t.equal(verify(signed, { ...own, secrets: [] }, at), 'unset');
  t.equal(verify(signed, { ...own, secrets: ['another'] }, at), 'wrong');
  t.equal(verify(`${signed}&sessionId=s`, own, at + 91_000), 'wrong');
  for (const seconds of [91, -91]) t.equal(verify(signed, own, at + seconds * 1000), 'stale');
  t.equal(verify(signed, { ...own, shopDomain: 'own.myshopify.com' }, at), 'shop');
  for (const seconds of [90, -90]) t.ok(verifyProxySignature(signed, SECRET, at + seconds * 1000));
});

t.test(
  "the example signature of Shopify's documentation is accepted, and any change of it is refused",
  async (t) => {
    t.equal(verifyProxySignature(signed)?.get('logged_in_customer_id'), '1');
    t.ok(verifyProxySignature(`signature=${SIGNATURE}&${QUERY}`), 'wherever it stands');
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
    for (const [name, query] of Object.entries(wrong)) t.equal(verifyProxySignature(query), undefined, name);
    t.equal(verifyProxySignature(signed, ''), undefined, 'no secret');
  },
);

t.test(
  'a proxy query that repeats shop, timestamp or customer is refused, even if its signature is right',
  async (t) => {
    for (const name of ['shop', 'timestamp', 'logged_in_customer_id']) {
      const parameters = new URLSearchParams(QUERY);
      parameters.append(name, parameters.get(name) ?? '');
      const keys = [...new Set(parameters.keys())];
      const joined = Object.fromEntries(keys.map((key) => [key, parameters.getAll(key).join(',')]));
      parameters.set('signature', signatureOf(sortedText(joined)));
      t.equal(verifyProxySignature(`${parameters}`), undefined, name);
    }
  },
);

// Shopify signs the guest's query; the attacker then cuts the signed text into other parameters.
t.test(
  'a proxy signature is refused if its text is cut into other parameters than the signed ones',
  async (t) => {
    const common = { path_prefix: '/apps/x', shop: 'shop-name.myshopify.com', timestamp: `${AT}` };
    const later = `${AT + 9_999}`;
    const RUN_ON = '/apps/xshop=shop-name.myshopify.comtimestamp=';
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
      'a time to come in a value, that of today in a name': [
        { a: `1timestamp=${AT + 9_999}u`, timestamp: `${AT}` },
        { a: '1', timestamp: `${AT + 9_999}`, utimestamp: `${AT}` },
      ],
      'the guest over two parameters': [
        { a: '1logged_in_customer_id=300m=', ...common, logged_in_customer_id: '' },
        { a: '1', logged_in_customer_id: '300', m: 'l', ogged_in_customer_id: '', ...common },
      ],
      'a time to come with a shop and a path of its own': [
        { ...common, logged_in_customer_id: '300', m: `1path_prefix=${RUN_ON}${AT + 9_999}u` },
        { ...common, logged_in_customer_id: '300', m: '1', timestamp: later, upath_prefix: `${RUN_ON}${AT}` },
      ],
      'a time to come behind that of today': [
        { ...common, logged_in_customer_id: '300', sz: 'x', z: `1timestamp=${later}` },
        { ...common, logged_in_customer_id: '300', sz: `xtimestamp=${AT}z=1`, timestamp: later },
      ],
      'a customer swallowed by a value': [
        { a: '', logged_in_customer_id: '300', ...common },
        { a: 'logged_in_customer_id=300', ...common },
      ],
    };
    for (const [name, [asked, shown]] of Object.entries(attacks)) {
      t.equal(sortedText(shown), sortedText(asked), `${name}: one signature for both`);
      const signature = signatureOf(sortedText(asked));
      for (const [what, parameters] of Object.entries({ asked, shown })) {
        for (const now of [at, at + 9_999_000]) {
          // The query as it was signed, within its time, may be an honest request.
          if (what === 'asked' && now === at) continue;
          const query = `${new URLSearchParams({ ...parameters, signature })}`;
          t.equal(verifyProxySignature(query, SECRET, now), undefined, `${name}: ${what}`);
        }
      }
    }
  },
);

t.test('a signature for another shop is refused, however its text is cut into parameters', async (t) => {
  const path = { path_prefix: '/apps/r', timestamp: `${AT}` };
  const other = { logged_in_customer_id: '', ...path, shop: 'dev-store.myshopify.com' };
  const hidden = 'shop=dev-store.myshopify.com';
  const attacks: Record<string, [asked: Record<string, string>, shown: Record<string, string>]> = {
    'in the value before it': [
      other,
      { ...path, logged_in_customer_id: '', path_prefix: `/apps/r${hidden}` },
    ],
    'in a name': [
      other,
      { logged_in_customer_id: '', path_prefix: '/apps/', rshop: other.shop, timestamp: `${AT}` },
    ],
    'behind the name of this shop': [
      { ...other, q: `1shop=${SHOP}si=` },
      { logged_in_customer_id: '', ...path, q: '1', shop: SHOP, si: hidden },
    ],
  };
  for (const [name, [asked, shown]] of Object.entries(attacks)) {
    t.equal(sortedText(shown), sortedText(asked), `${name}: one signature for both`);
    const signature = signatureOf(sortedText(asked));
    const query = `${new URLSearchParams({ ...shown, signature })}`;
    t.equal(verify(query, { secrets: [SECRET], shopDomain: SHOP }, at), 'shop', name);
  }
});

const holds = (parameters: Record<string, string>) => {
  const all = { shop: 'shop-name.myshopify.com', timestamp: `${AT}`, ...parameters };
  const query = new URLSearchParams({ ...all, signature: signatureOf(sortedText(all)) });
  return verifyProxySignature(`${query}`) !== undefined;
};

t.test(
  'an ordinary proxy query is served, even if its names and values contain shop, time or path',
  async (t) => {
    const ordinary: Record<string, string>[] = [
      { utm_timestamp: '1', ref: 'https://x/?shop=1' },
      { return_to: `/search?timestamp=${AT - 1_000}&q=a` },
      { q: 'path_prefix=/x signature=y' },
      { xshop: '1', shop_timestamp: '12', path_prefix: '/apps/a=b' },
      { logged_in_customer: '7', logged_in_customer_idx: '7', q: 'logged_in_customer_id' },
      { q: 'shop', 'a=b': 'c=d', utm_signature: 'x' },
    ];
    for (const parameters of ordinary)
      for (const id of ['', '300'])
        t.ok(holds({ logged_in_customer_id: id, ...parameters }), JSON.stringify(parameters));
  },
);

t.test("a proxy query that can also be read as another customer's is refused", async (t) => {
  const ambiguous: Record<string, string>[] = [
    { q: 'a&logged_in_customer_id=7' },
    { xlogged_in_customer_id: '7' },
    { 'logged_in_customer_id=7': '' },
    { a: 'logged_in_', customer_id: '7' },
  ];
  for (const parameters of ambiguous)
    for (const login of [{}, { logged_in_customer_id: '' }])
      t.notOk(holds({ ...login, ...parameters }), JSON.stringify(parameters));
});

t.test(
  'a proxy query is refused unless its customer is digits or absent, and its time is digits',
  async (t) => {
    for (const id of ['', '1', '7032178376912', '9223372036854775807'])
      t.ok(holds({ logged_in_customer_id: id }), id);
    for (const id of [' ', '1 ', '-1', '1.0', '1e3', 'x', 'gid://shopify/Customer/1', '1,2', '\u0661'])
      t.notOk(holds({ logged_in_customer_id: id }), id);
    for (const time of ['', ' ', `${AT}.0`, `${AT / 10}e1`, `0x${AT.toString(16)}`, ` ${AT}`, `+${AT}`, 'x'])
      t.notOk(holds({ timestamp: time }), time);
  },
);

const APP = 'shpss_of-the-app-now';
const BEFORE = 'shpss_of-the-app-before';
const ADMIN = 'of-the-admin-0123456789';
const ALL = [APP, BEFORE, ADMIN];
const OTHER = 'shpss_of-another-app';
const WRONG = [OTHER, `${APP},${BEFORE}`, ALL.join(','), APP.slice(0, -1), `${APP} `];

t.test('webhooks, the proxy and framed pages take each of several secrets, and no other', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: ` ${APP}, ${BEFORE},${ADMIN},` } });
  const request = { shop_domain: SHOP_DOMAIN, customer: { id: 77, email: 'a@b.example' } };
  const webhooks = {
    purchase: orderOf({ id: 1 }, []),
    products: { id: 14, variants: [] },
    ...{ 'customers/data_request': request, 'customers/redact': request, 'shop/redact': request },
  };
  const deliverAll = async (secret: string, status: number) => {
    for (const [kind, order] of Object.entries(webhooks)) {
      const body = JSON.stringify(order);
      const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body, secret) };
      t.equal((await app.post(`/webhook/${kind}`, body, headers)).status, status, `${kind} ${secret}`);
    }
  };
  const identity = { customerId: '5' };
  await app.shop.add(identity);
  const { code } = await app.shop.share(identity);
  const before = await app.dump();
  for (const secret of WRONG) await deliverAll(secret, 401);
  const body = JSON.stringify(webhooks.purchase);
  const signature = sign(body, APP);
  const hmac = (text: string) => ({ 'x-shopify-hmac-sha256': text });
  const wrong = ['', sign(`${body} `, APP), `${signature}=`, signature.toLowerCase()].map(hmac);
  const withKey = { authorization: 'Bearer wrong-key-wrong-key', ...hmac(signature) };
  for (const headers of [{}, ...wrong, withKey, { 'x-api-key': APP }]) {
    const refused = await app.post('/webhook/purchase', body, { ...JSON_TYPE, ...headers });
    t.match(refused, { status: 401, headers: { 'www-authenticate': 'Bearer' } }, JSON.stringify(headers));
  }
  t.same(await app.dump(), before, 'what is not authentic changes nothing');
  for (const secret of ALL) await deliverAll(secret, 200);
  for (const secret of [...ALL, ...WRONG]) {
    const status = ALL.includes(secret) ? 200 : 401;
    const list = proxied('/item/list', { logged_in_customer_id: '1' }, secret);
    t.equal((await app.post(list, { identity: { customerId: '1' } })).status, status, secret);
    const { headers } = await app.get(proxied(`/wishlist/share/${code}`, {}, secret));
    t.match(headers['content-type'], status === 200 ? /^application\/liquid/ : /^text\/html/, secret);
  }
});

const OTHER_SHOP = 'dev-store.myshopify.com';
const customer = { id: 77, email: 'a@b.example' };
const WEBHOOKS: Readonly<Record<string, readonly [topic: string, body: object]>> = {
  purchase: ['orders/paid', orderOf(customer, [{ product_id: 1001 }])],
  products: ['products/update', { id: 1001, handle: 'red-shoe', title: 'Red shoe', variants: [] }],
  'customers/data_request': ['customers/data_request', { customer }],
  'customers/redact': ['customers/redact', { customer }],
  'shop/redact': ['shop/redact', {}],
};
const DOMAIN = 'x-shopify-shop-domain';

t.test(
  'a webhook of another shop is answered 200, does nothing, is counted, and is logged once',
  async (t) => {
    const logged: unknown[] = [];
    const onLog = ({ shop }: { readonly shop?: unknown }) => {
      if (shop !== undefined) logged.push(shop);
    };
    const app = await startApp(t, await startTestRedis(t), { env: { SHOPIFY_SECRET: APP }, onLog });
    const deliver = (kind: string, headers: Headers, fields: object) => {
      const [topic, body] = WEBHOOKS[kind] as [string, object];
      const text = JSON.stringify({ ...body, ...fields });
      const signature = { 'x-shopify-hmac-sha256': sign(text, APP), 'x-shopify-topic': topic };
      return app.post(`/webhook/${kind}`, text, { ...JSON_TYPE, ...signature, ...headers });
    };
    await app.shop.add({ customerId: '77', email: customer.email });
    const before = await app.dump();
    const foreign: readonly [Headers, object][] = [
      [{ [DOMAIN]: OTHER_SHOP }, {}],
      [{}, { shop_domain: OTHER_SHOP }],
      [{}, { myshopify_domain: OTHER_SHOP }],
      [{ [DOMAIN]: OTHER_SHOP }, { shop_domain: SHOP_DOMAIN }],
      [{ [DOMAIN]: SHOP_DOMAIN }, { shop_domain: OTHER_SHOP, myshopify_domain: SHOP_DOMAIN }],
    ];
    for (const kind of Object.keys(WEBHOOKS))
      for (const [headers, fields] of foreign) {
        const { status, json } = await deliver(kind, headers, fields);
        t.same([status, json], [200, kind === 'purchase' ? { recorded: 0, reason: 'shop' } : {}], kind);
      }
    t.same(await app.dump(), before);
    t.equal(await app.figure('webhooks_left_out_total{reason="shop"}'), 25);
    t.same(logged, [OTHER_SHOP]);

    const own: readonly [Headers, object][] = [
      [{}, {}],
      [{ [DOMAIN]: '' }, { shop_domain: null }],
      [{ [DOMAIN]: SHOP_DOMAIN.toUpperCase() }, { shop_domain: SHOP_DOMAIN, myshopify_domain: SHOP_DOMAIN }],
    ];
    for (const [headers, fields] of own)
      t.match((await deliver('purchase', headers, fields)).json, { recorded: 1 }, JSON.stringify(fields));
    await deliver('customers/data_request', {}, { shop_domain: SHOP_DOMAIN });
    t.equal(await app.figure('requests_open{kind="customers/data_request"}'), 1);
  },
);

t.test(
  'a proxy request that is signed for another shop is 403, and one that names no shop is accepted',
  async (t) => {
    const app = await startApp(t, await startTestRedis(t), { env: { SHOPIFY_SECRET: APP } });
    const identity = { customerId: '7' };
    await app.shop.add(identity);
    const { code } = await app.shop.share(identity);
    const before = await app.dump();
    const ask = async (shop: string) => {
      const as = (path: string, more = {}) =>
        proxied(path, { logged_in_customer_id: '7', shop, ...more }, APP);
      const answers = await Promise.all([
        app.post(as('/item/list'), { identity }),
        app.get(as('/product/visit', { sessionId: 's', productHandle: 'x' })),
        app.get(as(`/wishlist/share/${code}`)),
        app.post(as('/item/remove'), { identity, productId: 'none' }),
      ]);
      return answers.map(({ status }) => status);
    };
    for (const shop of [OTHER_SHOP, `${SHOP_DOMAIN}.evil.example`, 'shop'])
      t.same(await ask(shop), [403, 403, 403, 403], shop);
    t.same(await app.dump(), before);
    for (const shop of [SHOP_DOMAIN, SHOP_DOMAIN.toUpperCase(), ''])
      t.same(await ask(shop), [200, 200, 200, 200], shop);
  },
);

// A faster answer to a worse guess would tell how much of it was right. No request shows that reliably: this reads the source.
t.test('digests and signatures are compared in constant time, each with all keys or secrets', async (t) => {
  const folder = new URL('../../../src/http/', import.meta.url);
  const code = (file: string) =>
    readFileSync(new URL(file, folder), 'utf8')
      .replace(/\/\*[\s\S]*?\*\//g, '')
      .replace(/^\s*\/\/.*$|^import .*$/gm, '');
  const comparing = ['../key-ring.ts', 'proxy-signature.ts', 'webhook.ts'];
  for (const file of comparing) t.equal(code(file).match(/\btimingSafeEqual\(/g)?.length, 1, file);
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    if (file.endsWith('.ts') && !comparing.includes(file)) {
      t.notMatch(code(file), /createHmac\(|timingSafeEqual\(/, file);
      t.notMatch(code(file), /(apiKey|bearer|token|secret)\w* [!=]== (?!''|undefined|null)/i, file);
    }
  for (const file of comparing.slice(1)) t.match(code(file), /secrets\.filter\(/, file);
  t.notMatch(code('../key-ring.ts'), /\bbreak\b|\bcontinue\b/, 'each key is compared');
});

t.test('a remembered API key lets no other key in', async (t) => {
  const ring = new KeyRing(['sk_one', 'sk_two']);
  for (const key of ['sk_twO', 'sk_two', 'sk_two', 'sk_twO', 'sk_one', 'sk_on', 'sk_onee', ''])
    t.equal(ring.find(key), { sk_one: 0, sk_two: 1 }[key], `"${key}"`);
});

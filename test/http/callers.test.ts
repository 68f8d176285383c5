// Who may call, as the contract says: every operation times every caller, what VISIT_ACCESS leaves open to callers
// without a credential, and how a key is sent. The operations are those of /openapi.json, so that none is forgotten.

import { createHmac } from 'node:crypto';
import t, { type Test } from 'tap';
import { type Headers, KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { SECRET, signed, proxied as signedPath } from '../harness/app-proxy.js';
import { dumpRedis } from '../harness/dump.js';
import type { Document } from '../harness/openapi.js';
import { startTestRedis } from '../harness/redis.js';

const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';
const PATH = '/product/visit';

/** What a caller adds to a request, and what its requests are answered, by what they are about. */
interface CallerCase {
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  /** Whether Shopify signs the whole query. */
  readonly isProxied?: boolean;
  readonly secret?: string;
  readonly statuses: { readonly visits: number; readonly wishlist: number; readonly administration: number };
}

const ALL_401 = { visits: 401, wishlist: 401, administration: 401 };

const CALLERS: Readonly<Record<string, CallerCase>> = {
  'a server, by Bearer': {
    headers: { authorization: `Bearer ${KEY}` },
    statuses: { visits: 200, wishlist: 200, administration: 200 },
  },
  'a server, by X-API-Key': {
    headers: { 'x-api-key': KEY },
    statuses: { visits: 200, wishlist: 200, administration: 200 },
  },
  'a storefront': { isProxied: true, statuses: { visits: 200, wishlist: 200, administration: 403 } },
  'a storefront with another secret': { isProxied: true, secret: 'other', statuses: ALL_401 },
  'a browser, by X-API-Key': {
    headers: { 'x-api-key': PUBLISHABLE, origin: ORIGIN },
    statuses: { visits: 200, wishlist: 200, administration: 403 },
  },
  'a browser, by ?key=': {
    headers: { origin: ORIGIN },
    query: { key: PUBLISHABLE },
    statuses: { visits: 200, wishlist: 200, administration: 403 },
  },
  'a browser of another origin': {
    headers: { 'x-api-key': PUBLISHABLE, origin: 'https://evil.example' },
    statuses: { visits: 403, wishlist: 403, administration: 403 },
  },
  'a publishable key as Bearer': { headers: { authorization: `Bearer ${PUBLISHABLE}` }, statuses: ALL_401 },
  'a secret key in the query': { query: { key: KEY }, statuses: ALL_401 },
  'a wrong key': { headers: { 'x-api-key': 'sk_wrong_0123456789' }, statuses: ALL_401 },
  anyone: { statuses: { visits: 200, wishlist: 401, administration: 401 } },
};

/** Operations by what they are about; those that are open to all are not here. */
function about(path: string): 'visits' | 'wishlist' | 'administration' | undefined {
  if (path === '/product/visit' || path === '/product/visit/list') return 'visits';
  if (/^\/profile(\/|$)/.test(path) || ['/product/visit/batch', '/settings'].includes(path))
    return 'administration';
  return ['/event', '/item/add', '/item/remove', '/item/list', '/share', '/share/{code}/items'].includes(path)
    ? 'wishlist'
    : undefined;
}

const PUBLIC_PATHS = [
  '/beacon.js',
  '/wishlist/share/{code}',
  '/openapi.json',
  '/',
  '/docs',
  '/healthz',
  '/readyz',
  '/metrics',
  '/webhook/purchase',
  '/webhook/customers/data_request',
  '/webhook/customers/redact',
  '/webhook/shop/redact',
];

/** An example about a session that no other caller has linked to a customer. */
function owned(caller: string, example: unknown): unknown {
  return example === undefined
    ? undefined
    : JSON.parse(JSON.stringify(example).replaceAll('"s-1"', JSON.stringify(`s of ${caller}`)));
}

/** All three visit operations, and their statuses. */
async function statuses(
  app: TestApp,
  identity: Record<string, string>,
  headers: Headers = {},
): Promise<number[]> {
  const body = { identity, productHandle: 'x' };
  const query = withQuery(PATH, { ...identity, productHandle: 'x' });
  const answers = [
    await app.post(PATH, body, headers),
    await app.get(query, headers),
    await app.del(PATH, body, headers),
    await app.del(query, undefined, headers),
  ];
  return answers.map(({ status }) => status);
}

const OPEN = [200, 200, 200, 200];
const CLOSED = [401, 401, 401, 401];

t.test('callers', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, {
    env: { PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN, SHOPIFY_SECRET: SECRET },
  });
  const document: Document = (await app.get('/openapi.json')).json;
  const shared = await app.post('/share', { identity: { sessionId: 's-1' } }, { 'x-api-key': KEY });

  const request = (
    method: string,
    path: string,
    { headers = {}, query = {}, isProxied, secret }: CallerCase,
    body?: unknown,
    parameters: Readonly<Record<string, string>> = {},
  ) => {
    const all = { ...parameters, ...query };
    const sent = new URLSearchParams(isProxied ? signed(all, secret) : all);
    return app.send(method.toUpperCase(), `${path}?${sent}`, body, {
      ...headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    });
  };

  for (const [name, caller] of Object.entries(CALLERS)) {
    t.test(name, async (t) => {
      for (const [path, methods] of Object.entries(document.paths)) {
        const subject = about(path);
        if (subject === undefined) {
          t.ok(PUBLIC_PATHS.includes(path), `${path} is known to this test`);
          continue;
        }
        const before = await dumpRedis(redis, app.prefix);
        for (const [method, { parameters = [], requestBody }] of Object.entries(methods)) {
          // The example names a session and a customer where it is about merging; everybody may name the session.
          const example = owned(name, requestBody?.content['application/json'].example);
          const query: Record<string, string> = {};
          for (const { name, in: where, example } of parameters) {
            if (where === 'query' && example !== undefined) query[name] = String(example);
          }
          const real = path.replace('{code}', shared.json.code);
          const answer = await request(method, real, caller, example, query);
          t.equal(answer.status, caller.statuses[subject], `${method} ${path}: ${answer.text.slice(0, 120)}`);
          if (answer.status === 401) t.equal(answer.headers['www-authenticate'], 'Bearer');
        }
        if (caller.statuses[subject] !== 200)
          t.same(await dumpRedis(redis, app.prefix), before, 'nothing has changed');
      }
    });
  }

  const visit = (identity: object) => ({ identity, productHandle: 'red-shoe' });
  const proxied = (customer: string, identity: object) => {
    const caller = { isProxied: true, query: { logged_in_customer_id: customer }, statuses: ALL_401 };
    return request('post', PATH, caller, visit(identity), { count: 'true' });
  };

  t.test('a proxied customer acts for that customer alone', async (t) => {
    const own = await proxied('7', { customerId: 'gid://shopify/Customer/7' });
    t.match(own, { status: 200, json: { count: 1 } });
    t.match(await proxied('7', { customerId: '8' }), { status: 403, json: { code: 'forbidden' } });
    t.match(await proxied('', { customerId: '7' }), { status: 403, json: { code: 'forbidden' } });
    const bySession = await proxied('7', { sessionId: 'of-seven' });
    t.match(bySession, { status: 200, json: { profileId: own.json.profileId, count: 2 } });
    const guest = await app.post('/product/visit?count=true', visit({ sessionId: 'of-seven' }));
    t.match(
      guest,
      { status: 200, json: { profileId: own.json.profileId, count: 3 } },
      'and links its session',
    );
    t.match(await proxied('', { sessionId: 'a-guest' }), { status: 200, json: { count: 1 } });
  });

  t.test('a browser names sessions, no customers', async (t) => {
    const headers = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
    const answer = await app.post('/product/visit', visit({ customerId: '7' }), headers);
    t.match(answer, { status: 403, json: { code: 'forbidden' } });
  });

  t.test('publishable keys and signatures also serve where VISIT_ACCESS asks for a credential', async (t) => {
    const closed: TestApp = await startApp(t, redis, {
      env: {
        PUBLISHABLE_KEYS: PUBLISHABLE,
        ALLOWED_ORIGINS: ORIGIN,
        SHOPIFY_SECRET: SECRET,
        VISIT_ACCESS: 'key',
      },
    });
    const body = visit({ sessionId: 's-1' });
    t.equal((await closed.post('/product/visit', body)).status, 401);
    t.equal((await closed.post(`/product/visit?key=${PUBLISHABLE}`, body, { origin: ORIGIN })).status, 200);
    const query = new URLSearchParams(signed({ logged_in_customer_id: '' }));
    t.equal((await closed.post(`/product/visit?${query}`, body)).status, 200);
  });

  const session = { sessionId: 's' };
  const customer = { customerId: '42' };
  const both = { sessionId: 's-both', customerId: '43' };

  const visitAccess = async (
    t: Test,
    value: string,
    expected: { session: number[]; customer: number[]; both: number[] },
  ) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: value } });
    const before = await dumpRedis(redis, app.prefix);
    t.same(await statuses(app, session), expected.session, 'a session');
    const after = await dumpRedis(redis, app.prefix);
    if (expected.session === CLOSED) t.same(after, before);
    t.same(await statuses(app, customer), expected.customer, 'a customer');
    t.same(await statuses(app, both), expected.both, 'both');
    if (expected.customer === CLOSED) t.same(await dumpRedis(redis, app.prefix), after);
    for (const identity of [session, customer, both])
      t.same(await statuses(app, identity, TRUSTED), OPEN, 'with a key');
  };

  t.test('VISIT_ACCESS=session: without a credential a session, no customer', (t) =>
    visitAccess(t, 'session', { session: OPEN, customer: CLOSED, both: CLOSED }),
  );
  t.test('VISIT_ACCESS=open: without a credential anyone', (t) =>
    visitAccess(t, 'open', { session: OPEN, customer: OPEN, both: OPEN }),
  );
  t.test('VISIT_ACCESS=key: no caller without a credential', (t) =>
    visitAccess(t, 'key', { session: CLOSED, customer: CLOSED, both: CLOSED }),
  );
  t.test('VISIT_ACCESS is session where it is not given', async (t) => {
    t.same([...(await statuses(app, session)), ...(await statuses(app, customer))], [...OPEN, ...CLOSED]);
  });

  t.test('a key is taken as Bearer and as X-API-Key, and each of several keys is', async (t) => {
    const other = 'another-key-of-16-and-more';
    const app = await startApp(t, redis, { env: { API_KEYS: `${KEY}, ${other}`, VISIT_ACCESS: 'key' } });
    for (const key of [KEY, other]) {
      for (const headers of [
        { authorization: `Bearer ${key}` },
        { authorization: `bearer ${key}` },
        { authorization: `BEARER   ${key}` },
        { 'x-api-key': key },
        { 'X-API-KEY': key },
      ]) {
        t.same(await statuses(app, customer, headers), OPEN, Object.keys(headers).join());
      }
    }
  });

  t.test('a wrong credential is 401 with WWW-Authenticate, also where none is needed', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const before = await dumpRedis(redis, app.prefix);
    const wrong: Headers[] = [
      { 'x-api-key': 'x' },
      { 'x-api-key': `${KEY}x` },
      { 'x-api-key': KEY.slice(0, -1) },
      { 'x-api-key': KEY.toUpperCase() },
      { 'x-api-key': `Bearer ${KEY}` },
      { authorization: KEY },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: `Bearer ${KEY} ${KEY}` },
      { authorization: `Bearer ${KEY},` },
      { authorization: `Basic ${Buffer.from(`x:${KEY}`).toString('base64')}` },
      { authorization: `Token ${KEY}` },
    ];
    for (const headers of wrong) {
      t.same(await statuses(app, session, headers), CLOSED, JSON.stringify(headers));
      const answer = await app.post('/event', { identity: session, type: 'add' }, headers);
      t.match(answer, {
        status: 401,
        headers: { 'www-authenticate': 'Bearer' },
        json: { code: 'unauthorized', error: String },
      });
      t.notMatch(answer.text, KEY, 'keys are never told');
    }
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('a credential is asked for before the body is looked at', async (t) => {
    t.equal((await app.post('/event', '{')).status, 401);
    t.equal((await app.post('/event', 'x'.repeat(100_000))).status, 401);
    t.equal((await app.post('/event', {}, { 'content-type': 'text/html' })).status, 401);
  });

  t.test('a caller without a credential never links the two ids that it names', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const visit = (identity: object, headers: Headers = {}) =>
      app.post(`${PATH}?count=true`, { identity, productHandle: 'x' }, headers);
    const both = { customerId: 'c1', sessionId: 's1' };
    const first = await visit(both);
    t.equal(
      (await visit({ customerId: 'c1' })).json.profileId,
      first.json.profileId,
      "the customer's profile",
    );
    t.not((await visit({ sessionId: 's1' })).json.profileId, first.json.profileId);
    t.same(await statuses(app, both), OPEN);
    t.not(
      (await visit({ sessionId: 's1' })).json.profileId,
      (await visit({ customerId: 'c1' })).json.profileId,
      'still two',
    );
  });

  t.test('a signature that is wrong, stale, or cannot be checked are three sentences', async (t) => {
    const plain = await startApp(t, redis);
    const deliver = (from: TestApp, signature?: string) =>
      from.post(
        '/webhook/purchase',
        '{}',
        signature === undefined ? {} : { 'x-shopify-hmac-sha256': signature },
      );
    const other = createHmac('sha256', 'another').update('{}').digest('base64');
    const identity = { sessionId: 's' };
    const event = { identity, type: 'add' };
    const unset = "The proxy signature can't be checked: SHOPIFY_SECRET is not set.";
    const wrong = 'The proxy signature is not the one of this query under SHOPIFY_SECRET.';
    const stale = 'The proxy signature is right, but its timestamp is more than 90 s from now.';
    const old = signed({ timestamp: String(Math.floor(Date.now() / 1000) - 100) });
    const expect = async (from: TestApp, path: string, error: string) =>
      t.match(await from.post(path, event), { status: 401, json: { error, code: 'unauthorized' } });
    await expect(plain, signedPath('/event', {}), unset);
    await expect(app, signedPath('/event', {}, 'another'), wrong);
    await expect(app, withQuery('/event', old), stale);
    await expect(app, withQuery('/event', { ...old, sessionId: 's' }), wrong);
    t.match((await deliver(app)).json.error, /required: a secret key or a webhook signature/);
    t.match((await deliver(app, other)).json.error, /not the one of this body/);
    t.match((await deliver(app, 'AAAA')).json.error, /not the one of this body/);
    t.match((await deliver(plain, other)).json.error, /SHOPIFY_SECRET is not set/);
  });

  t.test('who may not is told which credential would do', async (t) => {
    const browser = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };
    const event = { identity: { sessionId: 's' }, type: 'add' };
    const told = async (
      answer: Promise<{ status: number; json: { error: string } }>,
      status: number,
      error: string,
    ) => t.match(await answer, { status, json: { error } });
    const either = 'a secret key, an app-proxy signature, or a publishable key.';
    await told(app.post('/event', event), 401, `A credential is required: ${either}`);
    const rule = 'This is no secret key, and a publishable key begins with pk_.';
    await told(app.post('/event', event, { ...browser, 'x-api-key': 'wrong_0123456789' }), 401, rule);
    await told(app.post('/event?key=wrong_0123456789', event, { origin: ORIGIN }), 401, rule);
    const wrong = { ...browser, 'x-api-key': 'pk_wrong_0123456789' };
    await told(app.post('/event', event, wrong), 401, 'A valid credential is required.');
    await told(app.get('/settings', browser), 403, 'This credential may not do this: it takes a secret key.');
    await told(app.get('/settings'), 401, 'A credential is required: a secret key.');
    const order = app.post('/webhook/purchase', '{}', browser);
    await told(order, 403, 'This credential may not do this: it takes a secret key or a webhook signature.');
    const visit = { identity: { customerId: '7' }, productHandle: 'x' };
    t.match(
      (await app.post('/product/visit', visit, browser)).json.error,
      /takes a secret key or an app-proxy/,
    );
    t.match((await app.post('/product/visit', visit)).json.error, /takes a secret key or an app-proxy/);
  });
});

// Every operation of /openapi.json times every caller; no caller learns whether an id exists, or acts for another identity.

import { createHmac } from 'node:crypto';
import t from 'tap';
import { complianceKeys } from '../../src/extras/privacy/keys.js';
import { createKeys } from '../../src/redis/keys.js';
import { KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { BROWSER, proxied, SECRET, SHOPPERS, signed } from '../harness/app-proxy.js';
import type { Answer, Headers } from '../harness/client.js';
import { keyPattern } from '../harness/key-pattern.js';
import { monitorRedis } from '../harness/monitor.js';
import { type DocumentedOperation, operationsOf } from '../harness/operations.js';
import { connectTo, startTestRedis } from '../harness/redis.js';

const PATH = '/product/visit';
const { 'x-api-key': PUBLISHABLE, origin: ORIGIN } = BROWSER;
type Query = Readonly<Record<string, string>>;
type Statuses = readonly [visits: number, wishlist: number, administration: number];
const SERVER: Statuses = [200, 200, 200];
const SHOPPER: Statuses = [200, 200, 403];
const ALL_401: Statuses = [401, 401, 401];
const ALL_403: Statuses = [403, 403, 403];
const ago = (seconds: number) => ({ timestamp: String(Math.floor(Date.now() / 1000) - seconds) });
/** What a caller adds to a request. `sign` signs the whole query. */
const CALLERS: Readonly<
  Record<
    string,
    readonly [Statuses, Headers, { readonly query?: Query; readonly sign?: (query: Query) => Query }?]
  >
> = {
  'a server, by Bearer': [SERVER, TRUSTED],
  'a server, by X-API-Key': [SERVER, { 'x-api-key': KEY }],
  'a storefront': [SHOPPER, {}, { sign: (query) => signed(query) }],
  'a storefront with another secret': [ALL_401, {}, { sign: (query) => signed(query, 'other') }],
  'a storefront whose signature is old': [ALL_401, {}, { sign: (query) => signed({ ...query, ...ago(91) }) }],
  'a browser, by X-API-Key': [SHOPPER, BROWSER],
  'a browser, by ?key=': [SHOPPER, { origin: ORIGIN }, { query: { key: PUBLISHABLE } }],
  'a browser of another origin': [ALL_403, { ...BROWSER, origin: 'https://evil.example' }],
  'a browser that hides its origin': [ALL_403, { ...BROWSER, origin: 'null' }],
  'a browser of another origin, with a Referer': [
    ALL_403,
    { ...BROWSER, origin: 'https://evil.example', referer: `${ORIGIN}/` },
  ],
  'a publishable key without an origin': [ALL_403, {}, { query: { key: PUBLISHABLE } }],
  'a publishable key as Bearer': [ALL_401, { authorization: `Bearer ${PUBLISHABLE}` }],
  'an unknown publishable key': [ALL_401, { ...BROWSER, 'x-api-key': 'pk_wrong_0123456789' }],
  'an empty key': [ALL_401, { origin: ORIGIN }, { query: { key: '' } }],
  'a secret key in the query': [ALL_401, { origin: ORIGIN }, { query: { key: KEY } }],
  'a wrong key': [ALL_401, { 'x-api-key': 'sk_wrong_0123456789' }],
  anyone: [[200, 401, 401], {}],
  'anyone with the signature of a webhook': [
    [200, 401, 401],
    { 'x-shopify-hmac-sha256': createHmac('sha256', SECRET).update('').digest('base64') },
  ],
};
/** The index in Statuses of an operation's group; undefined if the operation is public. */
function about(path: string): 0 | 1 | 2 | undefined {
  if (path === PATH || path === '/product/visit/list') return 0;
  if (/^\/((profile|receivers|products)(\/|$)|product\/visit\/batch$|settings$)/.test(path)) return 2;
  return /^\/(event|item\/(add|remove|list|check|count)|share(\/\{code\}\/items)?)$/.test(path)
    ? 1
    : undefined;
}
const PUBLIC_PATHS =
  /^\/(docs|openapi.json|popular|beacon.js|wishlist(-page)?.js|healthz|readyz|metrics|wishlist\/share\/{code}|webhook\/.*)?$/;
/** The answer without its request id and date, which always differ. */
function shape({ status, headers, text }: Answer): unknown {
  const { date: _date, 'x-request-id': _id, ...rest } = headers;
  return { status, headers: rest, text };
}
const OPEN = [200];
const CLOSED = [401];
t.test('callers', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  const app = await startApp(t, redis, { env: SHOPPERS });
  const documented = await operationsOf(app);
  const visit = (identity: object) => ({ identity, productHandle: 'red-shoe' });
  const event = { identity: { sessionId: 's' }, type: 'add' };

  const sendAs = (
    to: TestApp,
    { method, path, body, query }: DocumentedOperation,
    identity: Query | undefined,
    headers: Headers,
    login?: string,
  ) => {
    const names = query['productHandle'] === undefined ? {} : { productHandle: 'x' };
    const asked = body === undefined ? { ...names, ...identity } : {};
    const signedQuery = login === undefined ? asked : signed({ ...asked, logged_in_customer_id: login });
    return to.send(method, withQuery(path, signedQuery), body && { ...body, identity }, headers);
  };
  const statuses = async (to: TestApp, identity: Query, headers: Headers = {}): Promise<number[]> => {
    const operations = documented.filter(({ path }) => about(path) === 0);
    const query = withQuery(PATH, { ...identity, productHandle: 'x' });
    const answers = await Promise.all([
      ...operations.map((operation) => sendAs(to, operation, identity, headers)),
      to.del(query, undefined, headers),
    ]);
    return [...new Set(answers.map(({ status }) => status))];
  };

  const known = { customerId: '4711', sessionId: 'known', code: '' };
  await app.shop.add({ customerId: known.customerId, sessionId: known.sessionId });
  known.code = (await app.shop.share({ customerId: known.customerId })).code;
  const unknown = { customerId: '1174', sessionId: 'other', code: 'A'.repeat(16) };

  // A process reads these keys on its own: node markers, pending work, open requests of the shop.
  const keys = createKeys(app.prefix);
  const { meta, pending } = keys;
  const { compliance } = complianceKeys(keys);
  const own = keyPattern(meta, pending(0), compliance);
  const watch = async () => {
    const asked: string[] = [];
    const last = `${app.prefix}:asked`;
    let done = () => {};
    const allSeen = new Promise<void>((resolve) => {
      done = resolve;
    });
    const close = await monitorRedis(redis.url, (words) => {
      if (words[1] === last) done();
      else if (!/^(info|time|ping)$/i.test(words[0] ?? '') && !words.some((word) => own.test(word)))
        asked.push(words.join(' '));
    });
    return async () => {
      await client.exists(last); // every earlier command has been reported by then
      await allSeen;
      close();
      return asked;
    };
  };

  for (const [name, [expected, headers, { query = {}, sign = (all: Query) => all } = {}]] of Object.entries(
    CALLERS,
  )) {
    t.test(`${name} is answered ${expected}, and no refusal tells whether an id exists`, async (t) => {
      const request = ({ method, path, query: given, body }: DocumentedOperation, ids: typeof known) => {
        const about = (example: unknown) =>
          JSON.stringify(example)
            .replaceAll('"s-1"', JSON.stringify(ids.sessionId))
            .replaceAll('"7"', JSON.stringify(ids.customerId));
        return app.send(
          method,
          withQuery(path.replace('{code}', ids.code), sign({ ...JSON.parse(about(given)), ...query })),
          body === undefined ? undefined : about(body),
          { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        );
      };
      const askedOfRedis = await watch();
      const allowed: DocumentedOperation[] = [];
      for (const operation of documented) {
        const { name, path } = operation;
        const subject = about(path);
        if (subject === undefined) t.ok(PUBLIC_PATHS.test(path), `${path} is known to this test`);
        else if (expected[subject] === 200) allowed.push(operation);
        else {
          const answer = await request(operation, known);
          t.equal(answer.status, expected[subject], `${name}: ${answer.text.slice(0, 120)}`);
          if (answer.status === 401) t.equal(answer.headers['www-authenticate'], 'Bearer');
          t.same(shape(await request(operation, unknown)), shape(answer), name);
        }
      }
      t.same(await askedOfRedis(), [], 'if refused Redis is not asked: nothing changes, no time tells');
      // Erasures come last: after them nothing could be read.
      const isErasure = ({ method }: DocumentedOperation) => Number(method === 'DELETE');
      for (const operation of allowed.sort((a, b) => isErasure(a) - isErasure(b))) {
        // Earlier callers have linked the known session to a customer.
        const answer = await request(operation, { ...known, sessionId: `s of ${name}`, customerId: '7' });
        // There is no such receiver, and no host of the example's name.
        const expected = operation.name === 'POST /receivers' ? 400 : 200;
        const status = operation.path.includes('{id}') ? 404 : expected;
        t.equal(answer.status, status, `${operation.name}: ${answer.text.slice(0, 120)}`);
      }
    });
  }

  t.test(
    'every operation refuses a foreign identity, and a linked session without its customer',
    async (t) => {
      const app = await startApp(t, redis, { env: SHOPPERS });
      const [own, foreign] = [{ customerId: '17' }, { customerId: '8' }];
      const linked = { sessionId: 'of-17' };
      await app.shop.add({ ...own, ...linked });
      await app.shop.add(foreign);
      const operations = documented.filter(({ path }) => (about(path) ?? 2) < 2 && !path.includes('{'));
      t.ok(operations.length >= 9, `${operations.length} operations`);
      const before = await app.dump();
      for (const operation of operations) {
        const isWishlist = about(operation.path) === 1;
        const refused: [what: string, identity: Query, headers: Headers, login?: string][] = [
          ['a browser names a customer', foreign, BROWSER],
          ['a browser names a customer and a session', { ...foreign, sessionId: 's' }, BROWSER],
          ['a customer names another', foreign, {}, '17'],
          ['a customer names another and a session', { ...foreign, ...linked }, {}, '17'],
          ['a guest names a customer', foreign, {}, ''],
          ['a guest names a customer and a session', { ...own, ...linked }, {}, ''],
        ];
        for (const [what, ...how] of refused) {
          const answer = await sendAs(app, operation, ...how);
          t.match(answer, { status: 403, json: { code: 'forbidden' } }, `${operation.name}: ${what}`);
        }
        for (const login of [undefined, ''] as const) {
          if (!isWishlist) continue;
          const answer = await sendAs(app, operation, linked, login === undefined ? BROWSER : {}, login);
          t.match(answer, { status: 403, json: { code: 'session_belongs_to_customer' } }, operation.name);
        }
      }
      t.same(await app.dump(), before, 'nothing has changed');
      for (const operation of operations)
        for (const identity of [own, linked, undefined]) {
          const { status, text } = await sendAs(app, operation, identity, {}, '17');
          t.equal(status, 200, `${operation.name} ${JSON.stringify(identity)}: ${text}`);
        }
    },
  );

  t.test(
    'a storefront request without an identity acts for the logged-in customer, if its body is an object',
    async (t) => {
      const list = (customer: string, body: unknown) =>
        app.post(
          proxied('/item/list', { logged_in_customer_id: customer }),
          Buffer.from(JSON.stringify(body)),
        );
      t.match((await list(known.customerId, {})).json.items, [{ productId: '1001' }]);
      t.same((await list('99', { identity: { sessionId: known.sessionId } })).json.items, []);
      for (const body of [[], [{}], null, 'text', 7])
        t.equal((await list('71', body)).json.code, 'invalid_request', JSON.stringify(body));
      t.equal((await list('', {})).status, 400, 'nobody is logged in');
      t.equal((await app.post('/item/list', {}, TRUSTED)).status, 400, 'a key names no customer');
    },
  );

  const customer = { customerId: '42' };
  for (const [value, session, others] of [
    ['session', OPEN, CLOSED],
    ['open', OPEN, OPEN],
    ['key', CLOSED, CLOSED],
    [undefined, OPEN, CLOSED],
  ] as const) {
    t.test(
      `VISIT_ACCESS=${value ?? '<default>'} decides which visits need a credential, and accepts any kind`,
      async (t) => {
        const access = value === undefined ? {} : { VISIT_ACCESS: value };
        const app = await startApp(t, redis, { env: { ...SHOPPERS, ...access } });
        const before = await app.dump();
        const both = { sessionId: 's-both', customerId: '43' };
        if (session === CLOSED) t.same(await statuses(app, { sessionId: 's' }), CLOSED);
        t.same(await statuses(app, customer), others, 'a customer');
        t.same(await statuses(app, both), others, 'both');
        if (others === CLOSED) t.same(await app.dump(), before, 'nothing changes');
        if (session === OPEN) t.same(await statuses(app, { sessionId: 's' }), OPEN);
        for (const identity of [customer, both])
          t.same(await statuses(app, identity, TRUSTED), OPEN, 'with a key');
        t.same(await statuses(app, { sessionId: 's' }, BROWSER), OPEN);
        t.equal((await app.post(proxied(PATH, {}), visit({ sessionId: 's' }))).status, 200);
        t.equal((await app.post('/event', event)).status, 401, 'an event needs one, always');
      },
    );
  }

  t.test(
    'each of several API keys works as Bearer and as X-API-Key, however the header is capitalized',
    async (t) => {
      const other = 'another-key-of-16-and-more';
      const app = await startApp(t, redis, { env: { API_KEYS: `${KEY}, ${other}`, VISIT_ACCESS: 'key' } });
      for (const key of [KEY, other])
        for (const headers of [
          { authorization: `bearer ${key}` },
          { authorization: `BEARER   ${key}` },
          { 'X-API-KEY': key },
        ])
          t.equal((await app.post(PATH, visit(customer), headers)).status, 200, Object.keys(headers).join());
    },
  );

  t.test(
    'a wrong credential is answered 401 before the body is read, even if no credential is needed',
    async (t) => {
      const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
      const keys = [`${KEY}x`, KEY.slice(0, -1), KEY.toUpperCase(), `Bearer ${KEY}`];
      const bearers = [KEY, 'Bearer', 'Bearer ', `Bearer ${KEY} ${KEY}`, `Bearer ${KEY},`, `Basic ${KEY}`];
      const wrong: Headers[] = [
        ...keys.map((key) => ({ 'x-api-key': key })),
        ...bearers.map((authorization) => ({ authorization })),
      ];
      for (const headers of wrong) {
        t.same(await statuses(app, { sessionId: 's' }, headers), CLOSED, JSON.stringify(headers));
        for (const body of ['{', 'x'.repeat(100_000)]) {
          const answer = await app.post('/event', body, headers);
          t.match(answer, { status: 401, headers: { 'www-authenticate': 'Bearer' } });
          t.equal(answer.json.code, 'unauthorized');
          t.notMatch(answer.text, KEY, 'no refusal has a key');
        }
      }
      t.equal((await app.post('/event', {}, { 'content-type': 'text/html' })).status, 401);
    },
  );

  t.test('a caller without a credential never links the two ids that it names', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const profileOf = async (identity: object) => (await app.post(PATH, visit(identity))).json.profileId;
    const first = await profileOf({ customerId: 'c1', sessionId: 's1' });
    t.equal(await profileOf({ customerId: 'c1' }), first, "the customer's profile");
    t.not(await profileOf({ sessionId: 's1' }), first);
    t.same(await statuses(app, { customerId: 'c1', sessionId: 's1' }), OPEN);
    t.not(await profileOf({ sessionId: 's1' }), await profileOf({ customerId: 'c1' }), 'still two');
  });

  t.test('a refusal says what is wrong with a credential, or which kinds are accepted', async (t) => {
    const plain = await startApp(t, redis);
    const old = signed(ago(100));
    const other = { 'x-shopify-hmac-sha256': createHmac('sha256', 'another').update('{}').digest('base64') };
    const customerVisit = visit({ customerId: '7' });
    for (const [from, path, body, headers, status, error] of [
      [plain, proxied('/event', {}), event, {}, 401, /SHOPIFY_SECRET is not set/],
      [app, proxied('/event', {}, 'another'), event, {}, 401, /not the one of this query/],
      [app, withQuery('/event', old), event, {}, 401, /is right, but its timestamp is more than 90 s/],
      [app, '/webhook/purchase', '{}', {}, 401, /required: a secret key or a webhook signature/],
      [app, '/webhook/purchase', '{}', other, 401, /not the one of this body/],
      [app, '/webhook/purchase', '{}', BROWSER, 403, /takes a secret key or a webhook signature/],
      [app, '/event', event, {}, 401, /required: a secret key or an app-proxy signature or a publishable/],
      [
        app,
        '/event',
        event,
        { ...BROWSER, 'x-api-key': 'wrong_0123456789' },
        401,
        /no secret key, and a publishable/,
      ],
      [app, '/event', event, { ...BROWSER, 'x-api-key': 'pk_wrong_0123456789' }, 401, /A valid credential/],
      [app, PATH, customerVisit, BROWSER, 403, /takes a secret key or an app-proxy/],
      [app, PATH, customerVisit, {}, 401, /takes a secret key or an app-proxy/],
    ] as const)
      t.match(await from.post(path, body, headers), { status, json: { error } }, `${path} ${error}`);
    t.match(await app.get('/settings', BROWSER), { status: 403, json: { error: /takes a secret key\.$/ } });
    t.match(await app.get('/settings'), { status: 401, json: { error: /required: a secret key\.$/ } });
  });
});

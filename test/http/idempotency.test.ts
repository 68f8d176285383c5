// Under an Idempotency-Key a write is done once and answers as the first time, on every server, also after a crash.

import t from 'tap';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { inFlightText, parseRecord } from '../../src/redis/request-record.js';
import { eachRedis, KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import type { Answer } from '../harness/client.js';
import { keyPattern } from '../harness/key-pattern.js';
import { operationsOf } from '../harness/operations.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';

const VISIT = '/product/visit?count=true';
const REUSED = { status: 422, json: { code: 'idempotency_key_reused' } };

const visit = (sessionId: string, productHandle = 'red-shoe') => ({ identity: { sessionId }, productHandle });
const event = (sessionId: string, type = 'add') => ({ identity: { sessionId }, type });
const key = (text: string, more = {}) => ({ 'idempotency-key': text, ...more });

interface Write {
  /** Fields that make its example another request. */
  readonly other: object;
  /** What a visitor does between the first try and the retry; the retry must leave it. */
  readonly meanwhile: (app: TestApp, sessionId: string) => Promise<unknown>;
  /** Also tried on a server that ends before it answers. More crashes: test/profiles/crashes.test.ts. */
  readonly crashes?: true;
}

/** The operations that take a key. Those of receivers and products are tested with theirs. */
const WRITES: Readonly<Record<string, Write>> = {
  'POST /product/visit': {
    other: { productHandle: 'blue-hat' },
    meanwhile: ({ shop }, sessionId) => shop.visit({ sessionId }),
    crashes: true,
  },
  'POST /event': {
    other: { type: 'remove' },
    meanwhile: ({ shop }, sessionId) => shop.event({ sessionId }),
    crashes: true,
  },
  'POST /item/add': {
    other: { quantity: 5 },
    meanwhile: ({ shop }, sessionId) => shop.add({ sessionId }, { variantId: '2002', quantity: 7 }),
    crashes: true,
  },
  'POST /item/remove': {
    other: { event: 'remove' },
    meanwhile: ({ shop }, sessionId) => shop.add({ sessionId }, { variantId: '2002' }),
    crashes: true,
  },
  'POST /share': {
    other: { channel: 'Email' },
    meanwhile: ({ shop }, sessionId) => shop.visit({ sessionId }, 'blue-hat'),
    crashes: true,
  },
  'DELETE /product/visit': {
    other: { productHandle: 'blue-hat' },
    meanwhile: ({ shop }, sessionId) => shop.visit({ sessionId }),
    crashes: true,
  },
  'POST /profile/guest': {
    other: { firstName: 'Bob' },
    meanwhile: (app, sessionId) => app.post('/profile/guest', { sessionId, locale: 'fr' }, TRUSTED),
  },
  'POST /profile/merge': {
    other: { identity: { customerId: 'another', sessionId: 'another' } },
    meanwhile: ({ shop }, sessionId) => shop.login({ customerId: `${sessionId}-e`, sessionId }),
  },
  'PUT /settings': {
    other: { autoRemoveAfterPurchase: false },
    meanwhile: (app) => app.send('PUT', '/settings', { autoRemoveAfterPurchase: false }, TRUSTED),
  },
  'DELETE /profile': {
    other: { identity: { customerId: 'another' } },
    meanwhile: ({ shop }, sessionId) => shop.visit({ customerId: `${sessionId}-c` }),
  },
};

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  // The first try has ended, so these servers wait less for it.
  const startFast = () => startApp(t, redis, { prefix: app.prefix, timing: { requestGraceMs: 20 } });
  const retriers = [await startFast(), await startFast()] as const;
  const client = await connectRedis({ urls: redis.urls, name: 'test', timeoutMs: 20_000 }, () => {});
  t.teardown(() => client.disconnect());
  const dump = () => app.dump();
  const rowsOfSession = async (sessionId: string) =>
    (await app.rows()).filter((row) => row['session_id'] === sessionId);
  const keys = createKeys(app.prefix);
  /** Leaves Redis as if the server had ended before it answered `send`. */
  const sendToEnding = async (sessionId: string, send: () => Promise<Answer>): Promise<Answer> => {
    const before = new Set(await app.keys());
    const answer = await send();
    const made = (await app.keys()).filter((one) => !before.has(one));
    const record = made.find((one) => keyPattern(keys.request('*')).test(one)) as string;
    const [, id = ''] = /:k:(.+)\.1$/.exec(made.find((one) => one.includes(':k:')) ?? '') ?? [];
    const { fingerprint, customer } = parseRecord((await client.get(record)) ?? '');
    const { profileId: locations } = await app.shop.exported({ sessionId });
    const inFlight = { id, at: Date.now(), fingerprint, customer, locations };
    t.equal(await client.set(record, inFlightText(inFlight), 'KEEPTTL'), 'OK');
    return answer;
  };

  async function seen(sessionId: string): Promise<object> {
    const { profile, identities, shares, visits, items } = await app.shop.exported({ sessionId });
    const settings = (await app.get('/settings', TRUSTED)).json;
    const { locale } = profile;
    return { locale, identities, shares, visits, items, settings, events: await rowsOfSession(sessionId) };
  }

  const keyed = (await operationsOf(app)).filter(
    ({ path, takesKey }) => takesKey && !/^\/(receivers|products)/.test(path),
  );
  t.same(keyed.map(({ name }) => name).sort(), Object.keys(WRITES).sort(), 'all that take a key');
  for (const { name, method, path, query, body: example } of keyed) {
    const { other: another, meanwhile, crashes } = WRITES[name] as Write;
    /**
     * Sends the example for a visitor who has visited a product twice, and has the item that is to be
     * removed.
     */
    const send = (by: TestApp, sessionId: string, text: string, changes = {}): Promise<Answer> => {
      const ids = JSON.stringify(example)
        .replaceAll('"s-1"', `"${sessionId}"`)
        .replaceAll('"7"', `"${sessionId}-c"`);
      return by.send(method, withQuery(path, query), { ...JSON.parse(ids), ...changes }, key(text, TRUSTED));
    };
    const visitor = async (suffix: string) => {
      const sessionId = `${path.replaceAll('/', '-')}-${method}-${suffix}`;
      for (let i = 0; i < 2; i++) await app.shop.visit({ sessionId });
      if (path === '/item/remove') await app.shop.add({ sessionId }, { variantId: '2002' });
      return sessionId;
    };

    t.test(`${name} under a key is done once, and its key is refused with another request`, async (t) => {
      const sessionId = await visitor('once');
      const first = await send(app, sessionId, name);
      t.equal(first.status, 200);
      await meanwhile(app, sessionId);
      const before = await seen(sessionId);
      for (const by of [other, app]) t.equal((await send(by, sessionId, name)).text, first.text);
      t.same(await seen(sessionId), before);
      const all = await dump();
      t.match(await send(other, sessionId, name, another), REUSED);
      t.match(await send(app, sessionId, ''), { status: 400, json: { code: 'invalid_request' } });
      t.same(await dump(), all, 'what is refused changes nothing');
    });

    if (crashes)
      t.test(`${name} whose server ended before it answered is not done again after a login`, async (t) => {
        const sessionId = await visitor('crash');
        const customerId = `${sessionId}-d`;
        const first = await sendToEnding(sessionId, () => send(app, sessionId, `${name} crash`));
        await app.shop.visit({ customerId }, 'blue-hat');
        t.match(await app.shop.login({ customerId, sessionId }), { merged: true });
        await meanwhile(app, sessionId);
        const left = await seen(sessionId);
        const retries = await Promise.all(retriers.map((by) => send(by, sessionId, `${name} crash`)));
        const { profileId: _, ...done } = first.json;
        for (const retry of retries) t.match(retry, { status: 200, json: done });
        t.same(await seen(sessionId), left);
      });
  }

  t.test('a key that was used on one path is 422 on another, even with the same body', async (t) => {
    const body = { ...visit('paths'), type: 'add' };
    const first = await app.post(VISIT, body, key('paths', TRUSTED));
    t.equal(first.status, 200);
    const before = await dump();
    t.match(await other.del('/product/visit', body, key('paths', TRUSTED)), REUSED);
    t.match(await other.post('/event', body, key('paths', TRUSTED)), REUSED);
    t.same(await dump(), before);
    t.equal((await app.post(VISIT, body, key('paths', TRUSTED))).text, first.text);
  });

  t.test('a visit under a used key is 422 if only one of the two asks for the count', async (t) => {
    for (const [first, second] of [
      ['/product/visit', VISIT],
      [VISIT, '/product/visit'],
    ] as const) {
      const who = visit(`${first} first`);
      t.match(await app.post(first, who, key(`counted ${first}`, TRUSTED)), { status: 200 });
      t.match(await app.post(second, who, key(`counted ${first}`, TRUSTED)), REUSED);
      t.equal(await app.shop.count(who.identity), 1);
    }
  });

  t.test(
    'each visitor of a storefront has its own idempotency keys, and keeps them at a login',
    async (t) => {
      const shop = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
      const post = (sessionId: string, customer: string) =>
        shop.post(proxied('/event', { logged_in_customer_id: customer }), event(sessionId), key('1'));
      const guests = [await post('g-1', ''), await post('g-2', '')];
      t.not(guests[1]?.json.profileId, guests[0]?.json.profileId);
      t.equal((await post('g-1', '71')).text, guests[0]?.text, 'the retry of what the guest sent');
      t.equal((await shop.rows()).filter(({ origin }) => origin === 'event').length, 2);
      const anyone = await Promise.all(['e', 'f'].map((id) => shop.post(VISIT, visit(id), key('1'))));
      t.match(anyone, [{ json: { count: 1 } }, { json: { count: 1 } }], 'without a credential, too');

      const alone = (customer: string) =>
        shop.post(proxied('/event', { logged_in_customer_id: customer }), { type: 'add' }, key('1'));
      const customers = [await alone('74'), await alone('75')];
      t.match(customers, [{ status: 200 }, { status: 200 }]);
      t.not(customers[1]?.json.profileId, customers[0]?.json.profileId, 'customers without a session, too');
      t.equal((await alone('74')).text, customers[0]?.text);

      const first = await post('shared', '72');
      const next = await post('shared', '73');
      t.not(next.json.profileId, first.json.profileId, 'the next person at the same device');
      t.equal((await post('shared', '73')).text, next.text);
    },
  );

  t.test('duplicates that arrive at once are done once', async (t) => {
    const requests = [
      [VISIT, visit('g')],
      ['/event', event('h')],
    ] as const;
    for (const [path, body] of requests) {
      const servers = Array.from({ length: 40 }, (_, i) => (i % 2 ? app : other));
      const answers = await Promise.all(servers.map((by) => by.post(path, body, key(path, TRUSTED))));
      t.equal(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1);
      t.equal(answers[0]?.status, 200);
    }
    t.equal(await app.shop.count({ sessionId: 'g' }), 1);
    t.equal((await rowsOfSession('h')).length, 1);
  });

  t.test('an event with a key is one row, even if its server ended before it answered', async (t) => {
    const send = (by: TestApp) => by.post('/event', event('again'), key('again', TRUSTED));
    const first = await sendToEnding('again', () => send(app));
    t.equal((await send(retriers[0])).text, first.text);
    t.equal((await rowsOfSession('again')).length, 1);
  });
});

t.test('idempotency keys', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  const dump = async () => (await app.dump()) as Record<string, unknown>;

  t.test('each secret key has its own idempotency keys, also after API_KEYS has changed', async (t) => {
    const second = 'sk_test_of_another_server';
    const shared = await startApp(t, redis, { env: { API_KEYS: `${KEY},${second}` } });
    const by = (secret: string) => key('k', { authorization: `Bearer ${secret}` });
    t.equal((await shared.post('/event', event('one'), by(KEY))).status, 200);
    t.equal((await shared.post('/event', event('two'), by(second))).status, 200);
    t.equal((await shared.rows()).length, 2);
    const rotated = await startApp(t, redis, { env: { API_KEYS: second }, prefix: shared.prefix });
    t.equal((await rotated.post('/event', event('one'), by(second))).status, 422);
  });

  t.test('an Idempotency-Key has 1 to 255 bytes, and an empty one is 400', async (t) => {
    t.equal((await app.post(VISIT, visit('j'), key('x'.repeat(255)))).status, 200);
    const before = await dump();
    for (const wrong of ['', ' ', '\t', 'x'.repeat(256)]) {
      const refused = await app.post(VISIT, visit('j'), key(wrong));
      const fault = { in: 'header', path: 'Idempotency-Key', message: 'must have 1 to 255 bytes' };
      t.match(refused, { status: 400, json: { code: 'invalid_request', issues: [fault] } });
      const { json } = await app.post(VISIT, { productHandle: 5 }, key(wrong));
      t.match(
        json.issues,
        [fault, { path: '/identity' }, { path: '/productHandle' }],
        'with all other faults',
      );
    }
    t.same(await dump(), before);
    t.equal((await app.post(VISIT, visit('j'), { 'x-empty': '' })).status, 200);
  });

  t.test('reads and PATCH refuse an Idempotency-Key, and webhooks and batches ignore it', async (t) => {
    const own = await startApp(t, redis);
    const others = (await operationsOf(own)).filter(({ takesKey }) => !takesKey);
    const send = ({ method, path, query, body }: (typeof others)[number]) =>
      own.send(method, withQuery(path.replace(/\{\w+\}/, 'x'), query), body, key('', TRUSTED));
    const refusing = others.filter(({ ignoresKey }) => !ignoresKey);
    t.ok(refusing.some(({ method }) => method === 'PATCH') && refusing.length > 15);
    const before = await own.dump();
    const json = { code: 'invalid_request', issues: [{ in: 'header', path: 'Idempotency-Key' }] };
    for (const operation of refusing) {
      const answer = await send(operation);
      t.equal(answer.status, 400, operation.name);
      if (!operation.path.includes('/wishlist/share/')) t.match(answer.json, json, operation.name);
    }
    t.same(await own.dump(), before);
    const ignoring = others.filter(({ ignoresKey }) => ignoresKey);
    const webhooks = ['customers/data_request', 'customers/redact', 'products', 'purchase', 'shop/redact'];
    const names = ['/product/visit/batch', ...webhooks.map((name) => `/webhook/${name}`)];
    t.same(ignoring.map(({ path }) => path).sort(), names.sort());
    for (const operation of ignoring) t.match(await send(operation), { status: 200 }, operation.name);
  });

  t.test('a refused request does not use up its idempotency key', async (t) => {
    t.equal((await app.post(VISIT, { productHandle: 'h' }, key('later'))).status, 400);
    t.match(await app.post(VISIT, visit('k'), key('later')), { status: 200, json: { count: 1 } });
  });

  t.test('Redis keeps at most 200 bytes for the Idempotency-Key of an /item/add', async (t) => {
    const records = 1_000;
    const shopper = await startApp(t, redis);
    for (let from = 0; from < records; from += 50)
      await Promise.all(
        Array.from({ length: 50 }, (_, i) => {
          const [sessionId, productId] = [`shopper-${from + i}`, `${8_123_456_789_000 + i}`];
          const item = { ...ITEM, productId, variantId: `${45_123_456_789_000 + i}` };
          const text = `0190f3a2-7c1e-7d40-9a51-${String(from + i).padStart(12, '0')}`;
          return shopper.post('/item/add', { identity: { sessionId }, ...item }, key(text, TRUSTED));
        }),
      );
    const client = connectTo(t, redis.url);
    const isRecord = keyPattern(createKeys(shopper.prefix).request('*'));
    const kept = (await shopper.keys()).filter((one) => isRecord.test(one));
    t.equal(kept.length, records);
    const sizes = await Promise.all(kept.map((one) => client.memory('USAGE', one)));
    const mean = sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0) / records;
    t.ok(mean <= 200, `${mean} bytes`);
  });

  t.test('the record of a request names no visitor, and expires after 24 h', async (t) => {
    const client = connectTo(t, redis.url);
    // With a blank: any three letters occur in one of a hundred digests.
    const person = { email: 'ada@shop.example', firstName: 'Ada Augusta', lastName: 'Lovelace' };
    const body = { ...event('secret'), identity: { sessionId: 'secret', ...person } };
    await app.post('/event', body, key('personal', TRUSTED));
    const isRecord = (name: string) => /:(?:\{k:|k:)/.test(name);
    const records = Object.entries(await dump()).filter(([name]) => isRecord(name));
    t.ok(records.length > 3);
    for (const [name, record] of records) {
      t.notMatch(JSON.stringify(record), /ada@shop|Ada Augusta|Lovelace/, `${name}: what a retry needs`);
      const seconds = await client.ttl(name);
      t.ok(seconds > 86_000 && seconds <= 86_400, `${name}: ${seconds} s`);
    }
  });
});

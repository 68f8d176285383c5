// Shopify's three compliance webhooks: who may deliver, that each is kept before it is answered and done once, and that
// what is to be erased is erased and stays listed until ClickHouse has no row of it either.

import { createHmac } from 'node:crypto';
import t from 'tap';
import type { ComplianceRequest } from '../../src/identity/compliance.js';
import { EVERY_PROFILE } from '../../src/identity-rules.js';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, type Headers, KEY, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { allKeys, connectTo, dumpRedis } from '../harness/dump.js';
import { until } from '../harness/until.js';
import { JSON_TYPE, SECRET, sign } from './orders.js';
import { itemOf } from './wishlist.js';

const KINDS = ['customers/data_request', 'customers/redact', 'shop/redact'] as const;
type Kind = (typeof KINDS)[number];
const SHOP = { shop_id: 954889, shop_domain: 'snowdevil.myshopify.com' };
const customer = (id: unknown, email: unknown = 'john@rights.example') => ({
  ...SHOP,
  customer: { id, email, phone: '555-625-1199' },
});

let deliveries = 0;

function deliver(app: TestApp, kind: Kind, body: object | string, headers: Headers = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return app.post(`/webhook/${kind}`, text, {
    ...JSON_TYPE,
    'x-shopify-topic': kind,
    'x-shopify-hmac-sha256': sign(text),
    'x-shopify-webhook-id': `webhook-${++deliveries}`,
    ...headers,
  });
}

eachRedis(t, async (t, redis) => {
  const env = { SHOPIFY_SECRET: SECRET, BUCKETS: '64' };
  const open = async (prefix?: string) =>
    startApp(t, redis, { env, timing: { compliancePollMs: 50 }, ...(prefix ? { prefix } : {}) });
  /** What is open, by Redis. */
  const openOf = async (app: TestApp): Promise<ComplianceRequest[]> => {
    const { '#': _, ...kept } = ((await dumpRedis(redis, app.prefix))[createKeys(app.prefix).compliance] ??
      {}) as Record<string, string>;
    return Object.values(kept).map((text) => JSON.parse(text));
  };
  /** As the flusher does, once ClickHouse has no row any more. */
  const clickhouseIsDone = async (app: TestApp) => {
    const clients = redis.urls.map(connectTo);
    for (const client of clients) await client.del(createKeys(app.prefix).erasures).catch(() => {});
    for (const client of clients) client.disconnect();
  };
  const visit = async (app: TestApp, identity: object) =>
    (await app.post('/product/visit?count=true', { identity, productHandle: 'x' }, TRUSTED)).json.count;
  const visits = async (app: TestApp, customerId: string) =>
    (await app.get(withQuery('/product/visit', { customerId, productHandle: 'x' }), TRUSTED)).json.count;

  t.test('a customer is erased by id; the request stays until ClickHouse is done', async (t) => {
    const app = await open();
    const identity = { customerId: '7001', sessionId: 'of-7001' };
    await visit(app, { sessionId: 'of-7001' });
    await visit(app, identity);
    await app.post('/item/add', itemOf(identity), TRUSTED);
    const asked = { ...customer('gid://shopify/Customer/7001', null), data_request: { id: 1 } };
    await deliver(app, 'customers/data_request', asked);
    const headers = { 'x-shopify-event-id': 'redact-7001' };
    const body = { ...customer(7001, null), orders_to_redact: [1, 2] };
    t.equal((await deliver(app, 'customers/redact', body, headers)).status, 200);
    const redaction = async () => (await openOf(app)).filter(({ kind }) => kind === 'customers/redact');
    const [waiting] = await until('it is erased from Redis', async () => {
      const found = await redaction();
      return found[0]?.erased && found;
    });
    t.match(waiting, { customerId: null, email: null, orders: 2 });
    const found = JSON.stringify(await openOf(app));
    t.notMatch(found, '7001', 'the data request is kept without who was erased');
    t.match(found, '"dataRequestId":"1"');
    t.equal(await visits(app, '7001'), 0);
    t.match(await app.figures(), /^wishmeter_requests_open\{kind="customers\/redact"\} 1$/m);

    t.equal(await visit(app, { customerId: '7001' }), 1);
    await deliver(app, 'customers/redact', body, headers);
    await clickhouseIsDone(app);
    await until('it is done', async () => (await redaction()).length === 0);
    await deliver(app, 'customers/redact', body, headers);
    t.equal((await redaction()).length, 0, 'a repeated delivery does nothing more');
    t.equal(await visits(app, '7001'), 1, 'and leaves alone who came back');
  });

  t.test('what a process has taken, and not done, another does', async (t) => {
    const first = await open();
    await visit(first, { customerId: '7004' });
    const keys = createKeys(first.prefix);
    const client = connectTo(redis.urls[0] as string);
    t.teardown(() => client.disconnect());
    const request = {
      kind: 'customers/redact',
      at: 1,
      shop: null,
      customerId: '7004',
      email: null,
      orders: 0,
    };
    await first.close();
    // As if it had been killed right after it took the request.
    const { Cluster } = await import('ioredis');
    const at =
      redis.urls.length === 1
        ? client
        : new Cluster(redis.urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) })));
    t.teardown(() => at.disconnect());
    await at.hset(keys.compliance, { '#': 1, 1: JSON.stringify(request) });
    const second = await open(first.prefix);
    await until('it is erased', async () => (await openOf(second))[0]?.erased);
    t.equal(await visits(second, '7004'), 0);
  });

  t.test('a shop: every visitor, known or a guest, and what led to them', async (t) => {
    const app = await open();
    for (let i = 0; i < 40; i++) await visit(app, { sessionId: `guest-${i}` });
    for (let i = 0; i < 10; i++) {
      const identity = { sessionId: `linked-${i}`, customerId: `80${i}` };
      await visit(app, { sessionId: identity.sessionId });
      await visit(app, { customerId: identity.customerId });
      await visit(app, identity);
      await app.post('/item/add', itemOf({ ...identity, email: `c${i}@rights.example` }), TRUSTED);
      await app.post('/share', { identity }, TRUSTED);
      await app.post('/event', { identity, type: 'add' }, { ...TRUSTED, 'idempotency-key': `k-${i}` });
    }
    for (let i = 0; i < 10; i++) {
      const identity = { sessionId: `wisher-${i}` };
      await app.post('/item/add', itemOf({ ...identity, email: `g${i}@rights.example` }), TRUSTED);
      await app.post('/share', { identity }, TRUSTED);
    }
    t.equal((await deliver(app, 'shop/redact', SHOP)).status, 200);
    await until('all are erased', async () => (await openOf(app))[0]?.erased);
    const keys = createKeys(app.prefix);
    const left = (await allKeys(redis, app.prefix)).filter(
      (key) => !/:lane:|:(events|visits)(:|$)|:mark$/.test(key),
    );
    t.same(
      left
        .filter((key) => ![keys.meta, keys.erasures, keys.unanswered].includes(key) && !/:(k|x):/.test(key))
        .sort(),
      [keys.compliance, keys.complianceTaken].sort(),
    );
    // Alone there is one erasure (test/identity/shop-eraser.test.ts); here the audit of merges, which every process
    // runs when it starts, may have finished some visitors' and have written them down, too.
    const erasures = (await dumpRedis(redis, app.prefix))[keys.erasures] as object;
    t.ok(EVERY_PROFILE in erasures, 'one erasure stands for all');
    await clickhouseIsDone(app);
    await until('it is done', async () => (await openOf(app)).length === 0);
    t.equal(await visit(app, { sessionId: 'guest-0' }), 1);
  });

  // Requests and their erasures are in slots of their own; the rest depends on no more than that.
  if (redis.urls.length > 1) return;

  t.test('only what is authentic is taken', async (t) => {
    const app = await open();
    for (const kind of KINDS) {
      const body = JSON.stringify(customer(191167));
      const bare = { ...JSON_TYPE, 'x-shopify-webhook-id': 'forged' };
      const before = await dumpRedis(redis, app.prefix);
      const forged = [
        {},
        { 'x-shopify-hmac-sha256': '' },
        { 'x-shopify-hmac-sha256': sign(body, 'another-secret-0123') },
        { 'x-shopify-hmac-sha256': sign(`${body} `) },
        { 'x-shopify-hmac-sha256': createHmac('sha256', SECRET).update(body).digest('hex') },
      ];
      for (const headers of forged)
        t.match(await app.post(`/webhook/${kind}`, body, { ...bare, ...headers }), {
          status: 401,
          json: { code: 'unauthorized' },
        });
      t.same(await dumpRedis(redis, app.prefix), before);
      t.equal((await deliver(app, kind, '[]')).status, 400);
      t.equal((await deliver(app, kind, '{')).status, 400);
      t.equal((await deliver(app, kind, {}, { 'x-shopify-event-id': 'x'.repeat(256) })).status, 400);
    }
    t.same(await openOf(app), []);
    const unsigned = { ...JSON_TYPE, 'x-api-key': KEY };
    t.equal((await app.post('/webhook/customers/redact', customer(1), unsigned)).status, 200, 'a secret key');
  });

  t.test('a data request is kept, once for each event, with no address in clear', async (t) => {
    const app = await open();
    const asked = { ...customer(191167), orders_requested: [1, 2, 3], data_request: { id: 9999 } };
    for (const webhook of ['a', 'b'])
      t.match(
        await deliver(app, 'customers/data_request', asked, {
          'x-shopify-event-id': 'event-1',
          'x-shopify-webhook-id': webhook,
        }),
        { status: 200, text: '{}' },
      );
    await deliver(app, 'customers/data_request', asked, { 'x-shopify-webhook-id': 'c' });
    await deliver(app, 'customers/data_request', asked, { 'x-shopify-webhook-id': 'c' });
    const expected = {
      kind: 'customers/data_request',
      customerId: '191167',
      orders: 3,
      dataRequestId: '9999',
    };
    t.match(await openOf(app), [expected, expected]);
    t.equal((await openOf(app)).length, 2);
    const all = `${await allKeys(redis, app.prefix)} ${JSON.stringify(await dumpRedis(redis, app.prefix))}`;
    t.notMatch(all, 'john@');
    t.match(await app.figures(), /^wishmeter_requests_open\{kind="customers\/data_request"\} 2$/m);
  });

  t.test('customers as Shopify may send them, and 10,000 orders, are answered 200', async (t) => {
    const app = await open();
    const orders = Array.from({ length: 10_000 }, (_, i) => 5_000_000_000_000 + i);
    for (const body of [
      customer(null),
      customer(undefined),
      customer(12345, null),
      customer('unknown-one'),
      customer(0, ''),
      { ...SHOP, customer: { email: 'only@rights.example' } },
      { ...SHOP, customer: null },
      SHOP,
      { ...customer(7002), orders_to_redact: orders },
      { ...customer(7003), orders_to_redact: 'none' },
    ])
      for (const kind of ['customers/data_request', 'customers/redact'] as const)
        t.equal((await deliver(app, kind, body)).status, 200, JSON.stringify(body).slice(0, 80));
    t.equal((await openOf(app)).filter(({ kind }) => kind === 'customers/data_request').length, 10);
    await until('all are erased', async () =>
      (await openOf(app)).every(({ kind, erased }) => kind === 'customers/data_request' || erased),
    );
  });
});

// Shopify's compliance webhooks: kept before they are answered, done once, and listed until ClickHouse has no row of the visitor.

import { pino } from 'pino';
import t, { type Test } from 'tap';
import { readConfig } from '../../src/config.js';
import type { ComplianceRequest } from '../../src/extras/privacy/compliance.js';
import { privacy, privacyWith } from '../../src/extras/privacy/extra.js';
import { complianceKeys } from '../../src/extras/privacy/keys.js';
import { openRights } from '../../src/extras/privacy/rights.js';
import { createKeys } from '../../src/redis/keys.js';
import { runHere } from '../cli/in-process.js';
import { eachRedis, KEY, SHOP_DOMAIN, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import type { Headers } from '../harness/client.js';
import { extrasWith } from '../harness/extras.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { startServer } from '../wishlist/fixtures.js';
import { JSON_TYPE, SECRET, sign } from './orders.js';

const KINDS = ['customers/data_request', 'customers/redact', 'shop/redact'] as const;
type Kind = (typeof KINDS)[number];
const SHOP = { shop_id: 954889, shop_domain: SHOP_DOMAIN };
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
  const env = { SHOPIFY_SECRET: SECRET, SHOP_DOMAIN };
  const open = async (t: Test, prefix?: string) => {
    const warned: string[] = [];
    const onLog = (line: object) => warned.push(JSON.stringify(line));
    const settings = { env, extras: extrasWith(privacyWith({ pollMs: 50 }), privacy), onLog };
    const app = await startApp(t, redis, prefix === undefined ? settings : { ...settings, prefix });
    const config = readConfig({ ...env, REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix });
    const { compliance, close } = await openRights(config, pino({ level: 'silent' }), redis.urls, '');
    t.teardown(close);
    const requests = async (of?: Kind): Promise<ComplianceRequest[]> =>
      (await compliance.list()).flatMap(({ request }) =>
        [undefined, request.kind].includes(of) ? request : [],
      );
    const untilErased = () =>
      until('all is erased from Redis', async () => {
        const found = await requests();
        return found.every(({ kind, erased }) => kind === 'customers/data_request' || erased);
      });
    const confirm = (id: string) =>
      runHere('requests', ['confirm', id], { REDIS_URL: redis.urls.join(','), KEY_PREFIX: app.prefix });
    return { app, compliance, requests, untilErased, warned, confirm };
  };

  t.test('customers/redact erases the customer once, and stays open until ClickHouse is done', async (t) => {
    const { app, requests, untilErased } = await open(t);
    const who = { customerId: '7001' };
    await app.shop.visit({ sessionId: 'of-7001' });
    await app.shop.add({ ...who, sessionId: 'of-7001' });
    const asked = { ...customer('gid://shopify/Customer/7001', null), data_request: { id: 1 } };
    await deliver(app, 'customers/data_request', asked);
    const headers = { 'x-shopify-event-id': 'redact-7001' };
    const body = { ...customer(7001, null), orders_to_redact: [1, 2] };
    t.equal((await deliver(app, 'customers/redact', body, headers)).status, 200);
    await untilErased();
    t.match(await requests('customers/redact'), [{ customerId: null, email: null, orders: 2 }]);
    const found = JSON.stringify(await requests());
    t.notMatch(found, '7001', 'the data request is kept without who was erased');
    t.match(found, '"dataRequestId":"1"');
    t.equal(await app.shop.count(who), 0);
    t.equal(await app.figure('requests_open{kind="customers/redact"}'), 1);

    t.match(await app.shop.visit(who), { count: 1 });
    t.equal((await deliver(app, 'customers/redact', body, headers)).status, 200);
    t.equal((await requests('customers/redact')).length, 1, 'a repeated delivery does nothing more');
    await deliver(app, 'customers/redact', customer(7002, null));
    await untilErased();
    t.equal(await app.shop.count(who), 1, 'and leaves alone who came back');
  });

  t.test(
    "customers/redact also erases visitors for whom the customer's address was given, and no others",
    async (t) => {
      const { app, untilErased } = await open(t);
      const [buyer, guest, other] = [{ customerId: '7005' }, { sessionId: 'same' }, { sessionId: 'other' }];
      await app.shop.add(buyer);
      await app.shop.add({ ...guest, email: 'john@rights.example' });
      await app.shop.add({ ...other, email: 'joan@rights.example' });
      const body = customer(7005, 'John@Rights.example');
      t.equal((await deliver(app, 'customers/redact', body)).status, 200);
      await untilErased();
      t.same([await app.shop.items(buyer), await app.shop.items(guest)], [[], []]);
      t.equal((await app.shop.items(other)).length, 1);
    },
  );

  t.test('a request that a process took and left unfinished is done by another process', async (t) => {
    const first = await open(t);
    await first.app.shop.visit({ customerId: '7004' });
    await first.app.close();
    const rest = { shop: null, email: null, orders: 0, dataRequestId: null };
    await first.compliance.take('d', { kind: 'customers/redact', at: 1, customerId: '7004', ...rest });
    const second = await open(t, first.app.prefix);
    await second.untilErased();
    t.equal(await second.app.shop.count({ customerId: '7004' }), 0);
  });

  t.test('shop/redact erases all visitors, addresses and share codes once it is confirmed', async (t) => {
    const { app, compliance, requests, untilErased, warned, confirm } = await open(t);
    const codes: string[] = [];
    for (let i = 0; i < 10; i++) {
      const guest = { sessionId: `redacted-guest-${i}` };
      const both = { sessionId: `redacted-linked-${i}`, customerId: `redacted-${i}` };
      await app.shop.visit(guest);
      await app.shop.visit({ sessionId: both.sessionId });
      await app.shop.visit({ customerId: both.customerId });
      await app.shop.visit(both);
      const wisher = { sessionId: `redacted-wisher-${i}` };
      for (const who of [both, wisher]) {
        await app.shop.add({ ...who, email: `redacted-${i}@rights.example` });
        codes.push((await app.shop.share(who)).code);
      }
      const keyed = { ...TRUSTED, 'idempotency-key': `k-${i}` };
      await app.post('/event', { identity: both, type: 'add' }, keyed);
    }
    for (const asked of [customer(1, null), customer(2)]) await deliver(app, 'customers/data_request', asked);
    t.equal((await deliver(app, 'shop/redact', SHOP)).status, 200);
    const waiting = () => warned.filter((line) => line.includes('shop/redact'));
    await until('the log says that it waits', () => waiting().length > 0);
    await deliver(app, 'customers/redact', customer(3, null));
    await until('the next request is done', async () => (await requests('customers/redact'))[0]?.erased);
    const id = (await compliance.list()).find(({ request }) => request.kind === 'shop/redact')?.id ?? '';
    t.match(waiting()[0], `requests confirm ${id}`);
    t.equal(await app.shop.count({ sessionId: 'redacted-guest-0' }), 1, 'nothing is erased yet');
    t.ok(Number(await app.figure('requests_unconfirmed_seconds')) > 0);
    t.equal(await app.figure('requests_oldest_seconds{kind="shop/redact"}'), 0, 'it is not late');
    t.match(await confirm(id), { code: 0, stdout: '1 confirmed\n' });
    await untilErased();
    t.equal(waiting().length, 1, 'it is logged once');
    t.equal(await app.figure('requests_unconfirmed_seconds'), 0);
    t.same(await app.traces('redacted-', ...codes), []);
    t.equal((await requests('shop/redact')).length, 1, 'it stays open until ClickHouse is done');
    const left = (await requests('customers/data_request')).map((one) => [one.customerId, one.email]);
    t.same(left, Array(2).fill([null, null]), 'data requests are kept without their visitor');
    t.match(await app.shop.visit({ sessionId: 'redacted-guest-0' }), { count: 1 });
  });

  // The tests below use one slot at a time, so a cluster adds nothing.
  if (redis.urls.length > 1) return;

  t.test(
    'a compliance webhook without a readable request is 400, and a secret key may replace the signature',
    async (t) => {
      const { app, requests } = await open(t);
      for (const kind of KINDS) {
        t.equal((await deliver(app, kind, '[]')).status, 400);
        t.equal((await deliver(app, kind, '{')).status, 400);
        t.equal((await deliver(app, kind, {}, { 'x-shopify-event-id': 'x'.repeat(256) })).status, 400);
      }
      t.same(await requests(), []);
      const unsigned = { ...JSON_TYPE, 'x-api-key': KEY };
      t.equal((await app.post('/webhook/customers/redact', customer(1), unsigned)).status, 200);
    },
  );

  t.test(
    'a data request is kept once for each event, without the e-mail address in clear text',
    async (t) => {
      const { app, requests } = await open(t);
      const asked = { ...customer(191167), orders_requested: [1, 2, 3], data_request: { id: 9999 } };
      for (const [eventId, webhookId] of [
        ['event-1', 'a'],
        ['event-1', 'b'],
        ['', 'c'],
        ['', 'c'],
      ] as const) {
        const headers = { 'x-shopify-event-id': eventId, 'x-shopify-webhook-id': webhookId };
        const answer = await deliver(app, 'customers/data_request', asked, headers);
        t.match(answer, { status: 200, text: '{}' });
      }
      const expected = { kind: 'customers/data_request', customerId: '191167', orders: 3 };
      const found = await requests();
      t.equal(found.length, 2);
      for (const request of found) t.match(request, { ...expected, dataRequestId: '9999' });
      const all = `${await app.keys()} ${JSON.stringify(await app.dump())}`;
      t.notMatch(all, 'john@');
      t.equal(await app.figure('requests_open{kind="customers/data_request"}'), 2);
    },
  );

  t.test(
    'each of several requests of one Shopify event is done once, and remembered for seven days',
    async (t) => {
      const { app, requests } = await open(t);
      const headers = { 'x-shopify-event-id': 'two-customers' };
      const before = Date.now();
      for (const id of [7101, 7102, 7101, 7102]) {
        await deliver(app, 'customers/data_request', customer(id), headers);
        await deliver(app, 'customers/redact', customer(id + 100, null), headers);
      }
      const asked = (await requests()).map(({ kind, customerId }) => `${kind} ${customerId}`);
      t.same(
        asked.filter((one) => one.startsWith('customers/data')),
        ['customers/data_request 7101', 'customers/data_request 7102'],
      );
      t.equal((await requests('customers/redact')).length, 2);
      const { complianceTaken } = complianceKeys(createKeys(app.prefix));
      const taken = await connectTo(t, redis.urls[0] as string).zrange(
        complianceTaken,
        '0',
        '-1',
        'WITHSCORES',
      );
      const ends = taken.filter((_, i) => i % 2 === 1).map((seconds) => Number(seconds) * 1000);
      t.equal(ends.length, 4);
      const week = 7 * 24 * 60 * 60 * 1000;
      for (const end of ends) t.ok(end >= before + week - 1000 && end <= Date.now() + week);
    },
  );

  t.test(
    "a compliance webhook whose topic is another path's is answered 200, does nothing and is counted",
    async (t) => {
      const { app, requests } = await open(t);
      await app.shop.visit({ customerId: '7006' });
      for (const kind of KINDS)
        for (const topic of [...KINDS, 'orders/paid']) {
          if (topic === kind) continue;
          const sent = await deliver(app, kind, customer(7006), { 'x-shopify-topic': topic });
          t.match(sent, { status: 200, text: '{}' }, `${topic} at ${kind}`);
        }
      t.same(await requests(), []);
      t.equal(await app.figure('webhooks_left_out_total{reason="topic"}'), 9);
      await deliver(app, 'customers/data_request', customer(7006), { 'x-shopify-topic': '' });
      t.equal((await requests()).length, 1, 'who names no topic means that of the path');
    },
  );

  t.test('customers in each form that Shopify may send, and 10,000 orders, are answered 200', async (t) => {
    const { app, requests, untilErased } = await open(t);
    const bodies = [
      customer(null),
      customer(12345, null),
      customer('unknown-one'),
      customer(0, ''),
      { ...SHOP, customer: { email: 'only@rights.example' } },
      { ...SHOP, customer: null },
      SHOP,
      {
        ...customer(7002),
        orders_to_redact: Array.from({ length: 10_000 }, (_, i) => 5_000_000_000_000 + i),
      },
      { ...customer(7003), orders_to_redact: 'none' },
    ];
    for (const body of bodies)
      for (const kind of ['customers/data_request', 'customers/redact'] as const)
        t.equal((await deliver(app, kind, body)).status, 200, JSON.stringify(body).slice(0, 80));
    t.equal((await requests('customers/data_request')).length, bodies.length);
    await untilErased();
  });
});

const redis = await startTestRedis(t);
const client = connectTo(t, redis.url);

t.test('a request that fails or cannot be read stays open, and the others are done', async (t) => {
  const logged: string[] = [];
  const app = await startApp(t, redis, {
    env: { SHOPIFY_SECRET: SECRET },
    extras: extrasWith(privacyWith({ pollMs: 20 }), privacy),
    onError: (line) => logged.push(line),
  });
  const keys = createKeys(app.prefix);
  await client.hset(complianceKeys(keys).compliance, { '1': 'no JSON', '#': '1' });
  const redact = (id: number) => deliver(app, 'customers/redact', customer(id, null));
  const ids = [1, 2, 3];
  const made = await Promise.all(ids.map((id) => app.shop.visit({ customerId: String(id) })));
  const [broken = '', ...others] = made.map(({ profileId }) => profileId);
  await client.del(keys.members(broken));
  await client.set(keys.members(broken), 'no hash');
  for (const id of ids) t.equal((await redact(id)).status, 200);
  for (const profileId of others)
    await until('the others are erased', async () => (await client.exists(keys.counts(profileId))) === 0);
  const failures = async () => Number(await app.figure('task_failures_total{task="request"}'));
  await until('it was tried again', async () => (await failures()) > 1);
  t.equal(await client.exists(keys.counts(broken)), 1);
  t.match(logged.join(), /"task":"request".*a task failed and will be tried again/);
  t.match(logged.join(), /The open request 1 can't be read/);
  await client.del(keys.members(broken));
  await until('and is erased in the end', async () => (await client.exists(keys.counts(broken))) === 0);
  t.equal(await client.hget(complianceKeys(keys).compliance, '1'), 'no JSON');
});

t.test('an erasure by e-mail address that fails for one visitor still erases the others', async (t) => {
  const logged: string[] = [];
  const app = await startApp(t, redis, { onError: (line) => logged.push(line) });
  const keys = createKeys(app.prefix);
  const email = 'many@rights.shop';
  const profiles: string[] = [];
  for (const sessionId of ['a', 'b', 'c'])
    profiles.push((await app.shop.add({ sessionId, email })).profileId);
  const [first = '', ...others] = profiles.sort();
  const members = await client.hgetall(keys.members(first));
  await client.del(keys.members(first));
  await client.set(keys.members(first), 'no hash');
  const erase = () => app.del('/profile', { identity: { email } }, TRUSTED);
  t.equal((await erase()).status, 500);
  t.match(logged, [/request failed/]);
  const left = await client.exists(...others.map((profileId) => keys.profile(profileId)));
  t.equal(left, 0, 'the others are erased');
  await client.del(keys.members(first));
  await client.hset(keys.members(first), members);
  t.match(await erase(), { status: 200, json: { erased: true } });
  t.equal(await client.exists(keys.profile(first)), 0);
});

t.test(
  'an interrupted erasure that fails keeps no other from being completed, and no DELETE from its answer',
  async (t) => {
    const app = await startApp(t, redis);
    const server = await startServer(t, redis, app.prefix);
    const keys = createKeys(app.prefix);
    const interrupted = async (name: string) => {
      await client.zadd(keys.pending(0), '0', `erase 0.${name}`);
      return keys.setAside(`0.${name}`);
    };
    await client.set(await interrupted('broken'), 'no hash');
    const left = await interrupted('fine');
    await client.hset(left, { at: String(Date.now()), name: 'c:9', 'share:code': '' });
    await client.set(keys.share('code'), '0.fine');
    t.same(await app.shop.erase({ customerId: 'nobody' }), { erased: false });
    t.equal(await client.exists(left), 1, 'it completes no erasure of another visitor');
    await server.resume.run();
    t.equal(await client.exists(left, keys.share('code')), 0, 'the other one is completed');
    t.same(await client.zrange(keys.pending(0), '0', '-1'), ['erase 0.broken']);
  },
);

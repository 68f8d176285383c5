// POST /webhook/purchase: who may deliver an order, that it is done once, and whose it is. An order links nothing.

import t from 'tap';
import { eraseShop } from '../../src/extras/privacy/erase-shop.js';
import { Pending } from '../../src/profiles/pending.js';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { keyPattern } from '../harness/key-pattern.js';
import { connectToEach } from '../harness/redis.js';
import { openStore } from '../harness/store.js';
import { Wire } from '../harness/wire.js';
import {
  add,
  deliver,
  JSON_TYPE,
  linesOf,
  listed,
  orderOf,
  PATH,
  purchasesOf,
  SECRET,
  sessionNote,
  shopifyOrder,
  sign,
  switchTo,
} from './orders.js';

const LINE = { product_id: 11, variant_id: 21 };
const WISHED: [string, string] = ['11', '21'];

eachRedis(t, async (t, redis) => {
  const isCluster = redis.urls.length > 1;
  const env = { SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });
  const { erase, exported } = app.shop;
  await switchTo(app, true);
  let customers = 7_000;
  const newBuyer = async (of: TestApp = app) => {
    const who = { customerId: String(++customers) };
    await add(of, who, WISHED);
    return { who, order: orderOf({ id: customers }, [LINE]) };
  };
  const events = async (who: { customerId: string }) => (await purchasesOf(app, who)).length;
  let visitors = 0;
  const newPair = () => {
    const [customer, session] = [700_000 + ++visitors, `session-${visitors}`];
    const [byCustomer, bySession] = [{ customerId: String(customer) }, { sessionId: session }];
    return { customer, session, byCustomer, bySession };
  };
  /** The profile id that an identity has or would get; creates nothing. */
  const profileOf = async (who: Record<string, string>): Promise<string> =>
    (await app.post('/item/list', { identity: who }, TRUSTED)).json.profileId;

  t.test(
    'an order whose delivery failed half-way is completed by a repeat, and then done once',
    async (t) => {
      const full = await startApp(t, redis, { prefix: app.prefix, env: { ...env, STREAM_HIGH_WATER: '1' } });
      const { who, order } = await newBuyer();
      const ofUnknown = orderOf({ id: ++customers }, [LINE]);
      for (const one of [order, ofUnknown])
        t.equal((await deliver(full, one)).status, 503, 'no room for its event');
      t.equal(await events(who), 0);
      for (const one of [order, ofUnknown]) t.match(await deliver(app, one), { json: { recorded: 1 } });
      t.same(await listed(app, who), []);
      t.equal(await events(who), 1, 'the event is made by the repeat');
      await add(app, who, WISHED);
      for (let i = 0; i < 3; i++) t.equal((await deliver(app, order)).status, 200);
      t.same(await listed(app, who), [WISHED]);
      t.equal(await events(who), 1);
    },
  );

  t.test('an order delivered 50 times at once over two servers is done once', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix, env });
    const { who } = await newBuyer();
    await add(app, who, ['11', null], ['71', '710']);
    const order = orderOf({ id: customers }, [LINE, { product_id: 71, variant_id: 710 }]);
    const servers = Array.from({ length: 50 }, (_, i) => (i % 2 ? app : second));
    const answers = await Promise.all(servers.map((by) => deliver(by, order, 'at-once')));
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
    t.same(await listed(app, who), []);
    const made = (await purchasesOf(app, who)).map(({ event_id }) => event_id);
    t.same([made.length, new Set(made).size], [3, 3]);
  });

  // The tests below need only that records and profiles have slots of their own.
  if (isCluster) return;

  t.test('an order that matches no item is answered 200, and remembered for 400 days', async (t) => {
    const app = await startApp(t, redis, { env: { ...env, GUEST_RETENTION_DAYS: '0' } });
    await switchTo(app, true);
    const { who } = await newBuyer(app);
    const id = Number(who.customerId);
    for (const order of [
      orderOf({ id }, [{ product_id: 61, variant_id: 610 }]),
      orderOf({ id: 99_999 }, [LINE]),
      orderOf(null, [LINE]),
      orderOf({ id: 0 }, [LINE]),
      orderOf(String(id), [LINE]),
      orderOf(null, [LINE], { note_attributes: sessionNote('new') }),
      orderOf(null, [LINE], { note_attributes: sessionNote('undefined') }),
      orderOf(null, [LINE], { note_attributes: { wishlist_session_id: 'x' } }),
    ])
      t.equal((await deliver(app, order)).status, 200);
    t.same(await listed(app, who), [WISHED]);
    t.equal((await purchasesOf(app, who)).length, 0);
    const stated = (await app.rows()).filter(({ origin }) => origin === 'order');
    const named = stated.map(({ customer_id, session_id }) => customer_id ?? session_id);
    t.same(named, [who.customerId, '99999', 'new']);
    const [node] = connectToEach(t, redis.urls);
    const ttls = [];
    for (const key of (await node?.keys(`${app.prefix}:*`)) ?? []) ttls.push(Number(await node?.ttl(key)));
    const longest = Math.max(...ttls);
    const days = 400 * 86_400;
    t.ok(longest > days - 800 && longest <= days, `nothing is forgotten later: ${longest} s`);
  });

  t.test(
    'a repeated order removes nothing more, under any delivery id, also if its id is a gid',
    async (t) => {
      const { who, order } = await newBuyer();
      const again = { ...order, id: `gid://shopify/Order/${order.id}` };
      await deliver(app, order, 'seen-1');
      await add(app, who, WISHED);
      for (const sent of [order, again])
        for (const id of ['seen-1', 'seen-2', ''])
          t.match(await deliver(app, sent, id), { status: 200, json: { recorded: 1 } });
      t.same(await listed(app, who), [WISHED]);
      t.equal(await events(who), 1);
      const lines = await linesOf(app, order);
      t.equal(new Set(lines.map(({ event_id }) => event_id)).size, 1, 'each states the same');
      await deliver(app, orderOf({ id: customers }, [LINE]), 'seen-1');
      t.same(
        await listed(app, who),
        [],
        'another order is another purchase, whatever its delivery is called',
      );
    },
  );

  t.test("an order that can't be authentic is answered 401 before its body arrives", async (t) => {
    const plain = await startApp(t, redis);
    const signature = (value: string) => ({ 'x-shopify-hmac-sha256': value });
    for (const [of, headers] of [
      [app, {}],
      [app, signature('x')],
      [app, signature(`${sign('')}=`)],
      [app, signature(sign('').replace(/.=$/, '_='))],
      [plain, signature(sign(''))],
    ] as const) {
      const wire = await Wire.open(t, of.port);
      wire.sendHead('POST', PATH, { 'content-length': '1000', ...headers });
      t.match(await wire.next(), { status: 401, body: /"code":"unauthorized"/ }, JSON.stringify(headers));
    }
    const body = JSON.stringify(orderOf({ id: 1 }, []));
    const empty = { ...JSON_TYPE, ...signature(sign(body, '')) };
    t.equal((await plain.post(PATH, body, empty)).status, 401, 'nor is one under an empty secret');
    t.equal((await plain.post(PATH, body, { ...JSON_TYPE, ...TRUSTED })).status, 200);
  });

  t.test(
    'unfinished webhooks hold up to 64 MiB together, beyond which the oldest is answered 503',
    async (t) => {
      const unfinished = Buffer.alloc(4_194_303, ' ');
      const head = { 'content-length': '4194304', 'x-shopify-hmac-sha256': sign('') };
      const wires = await Promise.all(Array.from({ length: 17 }, () => Wire.open(t, app.port)));
      for (const wire of wires) {
        wire.sendHead('POST', PATH, head);
        wire.send(unfinished);
      }
      const refused = await Promise.race(wires.map((wire) => wire.next()));
      t.match(refused, { status: 503, body: /"code":"overloaded"/ });
      t.equal(await app.figure('http_refused_total{code="overloaded",why="bodies"}'), 1);
    },
  );

  t.test(
    'a webhook signature is checked against the bytes as sent, however they are escaped and cut',
    async (t) => {
      const { who, order } = await newBuyer();
      const text = JSON.stringify({ ...order, note: 'é 😀 </script>' }, null, 3);
      const body = Buffer.from(text.replace('é', '\\u00e9'));
      const pieces = [body.subarray(0, 7), body.subarray(7, 8), body.subarray(8)];
      const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body), 'x-shopify-topic': 'orders/paid' };
      t.equal((await app.post(PATH, pieces, headers)).status, 200);
      t.same(await listed(app, who), []);
    },
  );

  t.test('an order of 4 MiB is accepted, and a larger one is 413', async (t) => {
    const { who, order } = await newBuyer();
    const ofBytes = (bytes: number) => {
      const rest = bytes - JSON.stringify({ ...order, fill: '' }).length;
      return JSON.stringify({ ...order, fill: 'x'.repeat(rest) });
    };
    t.match(await deliver(app, ofBytes(4_194_305)), { status: 413, json: { code: 'payload_too_large' } });
    t.same(await listed(app, who), [WISHED]);
    const largest = ofBytes(4_194_304);
    t.equal((await deliver(app, largest)).status, 200);
    t.same(await listed(app, who), []);
    const headers = {
      ...JSON_TYPE,
      'x-shopify-hmac-sha256': sign(largest),
      'x-shopify-topic': 'orders/paid',
    };
    const segments = Array.from({ length: 4_096 }, (_, i) =>
      Buffer.from(largest.slice(i * 1_024, i * 1_024 + 1_024)),
    );
    t.match(
      await app.post(PATH, segments, headers),
      { status: 200, json: { recorded: 1 } },
      'in small pieces',
    );
  });

  t.test("an order from another customer's session belongs to the customer whom it names", async (t) => {
    await switchTo(app, true);
    const { session, byCustomer: other } = newPair();
    await app.shop.login({ ...other, sessionId: session });
    const { who, order } = await newBuyer();
    const named = { ...order, note_attributes: sessionNote(session) };
    await deliver(app, named);
    const profile_id = await profileOf(who);
    t.match(
      [await linesOf(app, order), await purchasesOf(app, { ...who, sessionId: session })],
      [[{ profile_id }], [{ profile_id }]],
    );
    await erase(other);
    t.match((await deliver(app, named)).json, { recorded: 1 }, "another customer's erasure is not its own");
    t.match(await linesOf(app, order), [{ profile_id }, { profile_id }]);
  });

  t.test(
    'an order that names a retired session belongs to its customer, or is left out with 200',
    async (t) => {
      const { session, byCustomer: first } = newPair();
      const { byCustomer: other } = newPair();
      await app.shop.visit({ sessionId: session });
      for (const one of [first, other]) await app.shop.login({ ...one, sessionId: session });
      await erase(other);
      const { who, order } = await newBuyer();
      const named = { ...order, note_attributes: sessionNote(session) };
      t.match(await deliver(app, named), { status: 200, json: { recorded: 1 } });
      t.match(await linesOf(app, order), [{ profile_id: await profileOf(who), session_id: undefined }]);
      const alone = { ...named, id: Number(named.id) + 500_000, customer: null };
      t.match(await deliver(app, alone), { status: 200, json: { recorded: 0, reason: 'erased' } });
      t.same(await linesOf(app, alone), []);
    },
  );

  t.test(
    'a body that is no order stores at most a note, and is 400 from a server or if it is no JSON',
    async (t) => {
      const { who, order } = await newBuyer();
      const right = { ...order, customer: { id: who.customerId } };
      const notes = keyPattern(createKeys(app.prefix).order('*'));
      const others = async () => Object.entries(await app.dump()).filter(([key]) => !notes.test(key));
      const before = await others();
      for (const body of ['{', '{"id":1}}', '{"id":00000000000000001}', 'id=1'])
        t.match(await deliver(app, body), { status: 400, json: { code: 'invalid_json' } }, body);
      const broken = Buffer.from('{"id":1,"line_items":[],"note":"\xff"}', 'latin1');
      const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(broken) };
      t.match(await app.post(PATH, broken, headers), { status: 400, json: { code: 'invalid_json' } });
      const wrongIds = [undefined, null, '', ' ', 1.5, 0, -1, true, [], {}, 'x'.repeat(256), 'a\u0000'];
      const many = Array.from({ length: 5_001 }, () => ({ ...LINE, price: '1.00' }));
      const faulty: [string, unknown[]][] = [
        ['', ['', 'null', '[]', '"order"', '1']],
        ['/id', wrongIds.map((id) => ({ ...right, id }))],
        ['/line_items', [undefined, null, {}, 'x', 1, many].map((line_items) => ({ ...right, line_items }))],
      ];
      for (const [path, bodies] of faulty)
        for (const body of bodies) {
          const text = typeof body === 'string' ? body : JSON.stringify(body);
          const { status, json } = await app.post(PATH, text, { ...JSON_TYPE, ...TRUSTED });
          t.match({ status, json }, { status: 400, json: { code: 'invalid_request' } }, text.slice(0, 200));
          t.same([...new Set(json.issues.map((issue: { path: string }) => issue.path))], [path]);
          t.match(await deliver(app, text), { status: 200, json: { recorded: 0, reason: 'invalid' } });
        }
      t.same(await others(), before);
    },
  );

  t.test("an order's address is kept with the customer, or else with the session", async (t) => {
    for (const isOn of [true, false]) {
      await switchTo(app, isOn);
      const [one, other] = [newPair(), newPair()];
      for (const [who, named, email] of [
        [one.byCustomer, one, `Checkout-${one.customer}@Shop.example`],
        [other.bySession, { session: other.session }, `checkout-${other.customer}@shop.example`],
      ] as const) {
        await deliver(app, shopifyOrder({ ...named, email }, [LINE]));
        const found = await exported({ email });
        t.match(found, { profileId: await profileOf(who), profile: { email: email.toLowerCase() } });
        t.notOk('others' in found);
      }
      t.same((await exported(one.bySession)).profile, {});
    }
    const { customer, session, bySession } = newPair();
    const email = `contact-${customer}@shop.example`;
    await deliver(app, shopifyOrder({ session }, [LINE], { email: '', contact_email: email }));
    t.match(await exported(bySession), { profile: { email } }, 'of a checkout that has a contact alone');
  });

  t.test('an order without lines registers its visitors', async (t) => {
    const { customer, session, byCustomer, bySession } = newPair();
    await deliver(app, shopifyOrder({ customer, session }, []));
    t.same([await erase(byCustomer), await erase(bySession)], [{ erased: true }, { erased: true }]);
  });

  const SAID: readonly (readonly [said: string, rest: object, isOn: boolean])[] = [
    ['paid, with autoRemoveAfterPurchase on', {}, true],
    ['paid, with autoRemoveAfterPurchase off', {}, false],
    ['a test', { test: true }, true],
    ['pending', { financial_status: 'pending' }, true],
    ['voided', { financial_status: 'voided' }, true],
    ['refunded', { financial_status: 'refunded' }, true],
    ['cancelled', { cancelled_at: '2026-03-02T10:20:00+01:00' }, true],
    ['invalid', { line_items: [{ product_id: 11, price: 'x' }] }, true],
    ['without a currency', { currency: null }, true],
  ];
  for (const [said, rest, isOn] of SAID)
    t.test(`an order that came as ${said} before an erasure brings nobody back`, async (t) => {
      await switchTo(app, isOn);
      const { customer, session, byCustomer, bySession } = newPair();
      await add(app, byCustomer, WISHED);
      await add(app, bySession, WISHED);
      const order = shopifyOrder({ customer, session }, [LINE]);
      t.equal((await deliver(app, { ...order, ...rest })).status, 200);
      const profiles = [await profileOf(byCustomer), await profileOf(bySession)];
      for (const who of [byCustomer, bySession]) t.same(await erase(who), { erased: true });
      const before = (await app.rows()).length;
      for (const repeated of [{ ...order, ...rest }, order, { ...order, cancelled_at: order.created_at }])
        t.match((await deliver(app, repeated)).json, { recorded: 0, reason: 'erased' });
      t.equal((await app.rows()).length, before, 'it writes no row');
      for (const who of [byCustomer, bySession, { email: String(order.email) }])
        t.same(await erase(who), { erased: false }, 'and makes no visitor known');
      const names = [...profiles, String(customer), session, String(order.email)];
      t.same(await app.traces(...names), []);

      await add(app, byCustomer, WISHED);
      t.match((await deliver(app, order)).json, { recorded: 0, reason: 'erased' }, 'the customer is back');
      t.same(await listed(app, byCustomer), [WISHED]);
      t.match((await deliver(app, shopifyOrder({ customer, session }, [LINE]))).json, { recorded: 1 }, 'new');
      if (isOn) t.same(await listed(app, byCustomer), []);
    });

  t.test("an order delivered again during its customer's erasure brings nobody back", async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix, env });
    await switchTo(app, true);
    for (let round = 0; round < 30; round++) {
      const { customer, session, byCustomer } = newPair();
      await add(app, byCustomer, WISHED);
      const order = shopifyOrder({ customer, session }, [LINE]);
      t.match((await deliver(app, order)).json, { recorded: 1 });
      const later = { ...order, updated_at: '2026-03-02T10:30:00+01:00' };
      const again = Array.from({ length: 8 }, (_, i) =>
        deliver(i % 2 ? app : second, later, `${round}-${i}`),
      );
      t.same(await erase(byCustomer), { erased: true });
      for (const { status } of await Promise.all(again)) t.equal(status, 200);
      for (const who of [byCustomer, { email: String(order.email) }])
        t.same(await erase(who), { erased: false }, `${Object.keys(who)}, round ${round}`);
    }
  });

  t.test(
    'an order stays erased with the visitor whose it is, and leaves out another erased session',
    async (t) => {
      for (const [erased, isKnown] of [
        ['customer', true],
        ['session', true],
        ['session', false],
      ] as const) {
        const { customer, session, byCustomer, bySession } = newPair();
        if (isKnown) await add(app, bySession, WISHED);
        const order = shopifyOrder({ customer, session }, [LINE]);
        await deliver(app, order);
        const [gone, kept] = erased === 'customer' ? [byCustomer, bySession] : [bySession, byCustomer];
        t.same(await erase(gone), { erased: true });
        const { json } = await deliver(app, order);
        const isOthers = erased === 'session' && !isKnown;
        t.match(json, isOthers ? { recorded: 1 } : { recorded: 0, reason: 'erased' }, `${erased} ${isKnown}`);
        t.equal((await linesOf(app, order)).at(-1)?.['session_id'], isOthers ? undefined : session);
        t.same(await erase(gone), { erased: false }, `${erased} ${isKnown}`);
        t.same(await erase(kept), { erased: true });
      }
    },
  );

  t.test(
    'an erasure of the shop covers orders that came before it, and no order that comes first later',
    async (t) => {
      const app = await startApp(t, redis, { env });
      const store = await openStore(t, redis, { keyPrefix: app.prefix });
      const order = shopifyOrder({ customer: 1, session: 'of-a-shop' }, [LINE]);
      await deliver(app, order);
      await eraseShop(store, new Pending(store), []);
      t.match((await deliver(app, order)).json, { recorded: 0, reason: 'erased' });
      t.match((await deliver(app, { ...order, id: order.id + 1 })).json, { recorded: 1 });
    },
  );
});

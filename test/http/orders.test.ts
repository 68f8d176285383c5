// POST /webhook/purchase: who may deliver an order, that it is done once, and whose it is. An order links nothing.

import t from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { connectToEach } from '../harness/redis.js';
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
  /** The profile that an identity has, or would get; makes nothing. */
  const profileOf = async (who: Record<string, string>): Promise<string> =>
    (await app.post('/item/list', { identity: who }, TRUSTED)).json.profileId;

  t.test('a delivery that failed half-way is completed by a repeat, and then it is done', async (t) => {
    const full = await startApp(t, redis, { prefix: app.prefix, env: { ...env, STREAM_HIGH_WATER: '1' } });
    const { who, order } = await newBuyer();
    t.equal((await deliver(full, order)).status, 503, 'no room for its event');
    t.equal(await events(who), 0);
    t.equal((await deliver(app, order)).status, 200);
    t.same(await listed(app, who), []);
    t.equal(await events(who), 1, 'the event is made by the repeat');
    await add(app, who, WISHED);
    for (let i = 0; i < 3; i++) t.equal((await deliver(app, order)).status, 200);
    t.same(await listed(app, who), [WISHED]);
    t.equal(await events(who), 1);
  });

  t.test('delivered 50 times at once over two servers it is done once', async (t) => {
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

  // The rest depends on no more than that records and profiles have slots of their own.
  if (isCluster) return;

  t.test('an order that matches nothing is 200, and is remembered for 400 days', async (t) => {
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

  t.test('an order that comes again takes nothing more, under any id, also as a gid', async (t) => {
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
    t.same(await listed(app, who), [], 'another order is another purchase, whatever its delivery is called');
  });

  t.test("what can't be right is 401 before its body comes", async (t) => {
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

  t.test('the signature is of the bytes as they came, however they are written and cut', async (t) => {
    const { who, order } = await newBuyer();
    const text = JSON.stringify({ ...order, note: 'é 😀 </script>' }, null, 3);
    const body = Buffer.from(text.replace('é', '\\u00e9'));
    const pieces = [body.subarray(0, 7), body.subarray(7, 8), body.subarray(8)];
    const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body), 'x-shopify-topic': 'orders/paid' };
    t.equal((await app.post(PATH, pieces, headers)).status, 200);
    t.same(await listed(app, who), []);
  });

  t.test('an order may have 4 MiB and no more', async (t) => {
    const { who, order } = await newBuyer();
    const ofBytes = (bytes: number) => {
      const rest = bytes - JSON.stringify({ ...order, fill: '' }).length;
      return JSON.stringify({ ...order, fill: 'x'.repeat(rest) });
    };
    t.match(await deliver(app, ofBytes(4_194_305)), { status: 413, json: { code: 'payload_too_large' } });
    t.same(await listed(app, who), [WISHED]);
    t.equal((await deliver(app, ofBytes(4_194_304))).status, 200);
    t.same(await listed(app, who), []);
  });

  t.test('what is no order changes nothing: 400 for a server, and if it is no JSON', async (t) => {
    const { who, order } = await newBuyer();
    const right = { ...order, customer: { id: who.customerId } };
    const before = await app.dump();
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
    t.same(await app.dump(), before);
  });

  t.test("the order's address is kept: with the customer, else with the session", async (t) => {
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

  t.test('an order without lines makes its visitors known', async (t) => {
    const { customer, session, byCustomer, bySession } = newPair();
    await deliver(app, shopifyOrder({ customer, session }, []));
    t.same([await erase(byCustomer), await erase(bySession)], [{ erased: true }, { erased: true }]);
  });

  for (const isOn of [true, false])
    t.test(`setting ${isOn ? 'on' : 'off'}: an order repeated after an erasure does nothing`, async (t) => {
      await switchTo(app, isOn);
      const { customer, session, byCustomer, bySession } = newPair();
      await add(app, byCustomer, WISHED);
      await add(app, bySession, WISHED);
      const order = shopifyOrder({ customer, session }, [LINE]);
      await deliver(app, order, `before-${session}`);
      const profiles = [await profileOf(byCustomer), await profileOf(bySession)];
      for (const who of [byCustomer, bySession]) t.same(await erase(who), { erased: true });
      const before = (await app.rows()).length;
      for (const id of [`before-${session}`, `after-${session}`, ''])
        t.match(await deliver(app, order, id), { status: 200, text: '{"recorded":0,"reason":"erased"}' });
      t.equal((await app.rows()).length, before, 'it writes no row');
      for (const who of [byCustomer, bySession, { email: String(order.email) }])
        t.same(await erase(who), { erased: false }, 'and makes no visitor known');

      const names = [...profiles, String(customer), session, String(order.email)];
      t.same(await app.traces(...names), []);
    });
});

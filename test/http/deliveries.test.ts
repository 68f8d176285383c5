// POST /webhook/purchase: who may deliver, what is no order, and that deliveries repeat; GET and PUT /settings.

import t from 'tap';
import { eachRedis, type Headers, KEY, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { connectToEach } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';
import { Wire } from '../harness/wire.js';
import {
  add,
  deliver,
  JSON_TYPE,
  listed,
  orderOf,
  PATH,
  purchasesOf,
  SECRET,
  sessionNote,
  sign,
  switchTo,
} from './orders.js';

const WISHED: [string, string] = ['70', '700'];
const LINE = { product_id: 70, variant_id: 700 };

eachRedis(t, async (t, redis) => {
  const env = { SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });
  await switchTo(app, true);
  let customers = 7_000;
  /** A customer who wishes for WISHED, and an order of it. */
  const newBuyer = async (of: TestApp = app) => {
    const who = { customerId: String(++customers) };
    await add(of, who, WISHED);
    return { who, order: orderOf({ id: customers }, [LINE]) };
  };
  const events = async (who: { customerId: string }) => (await purchasesOf(redis, app, who)).length;
  const orders = async (of: TestApp) => (await rowsOf(redis, of)).filter(({ origin }) => origin === 'order');

  t.test('a delivery that failed half-way is completed by a repeat, under its id or another', async (t) => {
    const full = await startApp(t, redis, { prefix: app.prefix, env: { ...env, STREAM_HIGH_WATER: '1' } });
    // Else a repeat waits for half a second, twice, before it takes the first try for one that has ended.
    const timing = { requestGraceMs: 20 };
    const fast = await startApp(t, redis, { prefix: app.prefix, env, timing });
    for (const [i, repeatedAs] of ['failed-0', 'other', ''].entries()) {
      const { who, order } = await newBuyer();
      t.equal((await deliver(full, order, `failed-${i}`)).status, 503, 'no room for its event');
      t.equal(await events(who), 0);
      t.equal((await deliver(fast, order, repeatedAs)).status, 200);
      t.same(await listed(app, who), [], repeatedAs);
      t.equal(await events(who), 1, `the event is made by the repeat: ${repeatedAs}`);
      await add(app, who, WISHED);
      for (const id of [`failed-${i}`, repeatedAs, 'yet-another'])
        t.equal((await deliver(fast, order, id)).status, 200);
      t.same(await listed(app, who), [WISHED], 'and then it is done');
      t.equal(await events(who), 1);
    }
  });

  t.test('delivered 50 times at once over two servers it is done once', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix, env });
    const { who } = await newBuyer();
    await add(app, who, ['70', null], ['71', '710']);
    const order = orderOf({ id: customers }, [LINE, { product_id: 71, variant_id: 710 }]);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => deliver(i % 2 ? app : second, order, 'at-once')),
    );
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
    t.same(await listed(app, who), []);
    const made = (await purchasesOf(redis, app, who)).map(({ event_id }) => event_id);
    t.same([made.length, new Set(made).size], [3, 3]);
  });

  // An order and its delivery have records in slots of their own; the rest depends on no more than that.
  if (redis.urls.length > 1) return;

  t.test('an order that matches nothing is 200, and is remembered for 48 h with its lines', async (t) => {
    const app = await startApp(t, redis, { env: { ...env, GUEST_RETENTION_DAYS: '0' } });
    await switchTo(app, true);
    const { who } = await newBuyer(app);
    const id = Number(who.customerId);
    for (const order of [
      orderOf({ id }, [{ product_id: 61, variant_id: 610 }]),
      orderOf({ id }, []),
      orderOf({ id: 99_999 }, [LINE]),
      orderOf(null, [LINE]),
      orderOf({ id: 0 }, [LINE]),
      orderOf(String(id), [LINE]),
      orderOf(null, [LINE], { note_attributes: sessionNote('new') }),
      orderOf(null, [LINE], { note_attributes: sessionNote('undefined') }),
      orderOf(null, [LINE], { note_attributes: { wishlist_session_id: 'x' } }),
    ])
      t.match(await deliver(app, order), { status: 200, text: '{}' });
    t.same(await listed(app, who), [WISHED]);
    t.equal((await purchasesOf(redis, app, who)).length, 0);
    t.same(
      (await orders(app)).map(({ customer_id, session_id }) => customer_id ?? session_id),
      [who.customerId, '99999', 'new'],
    );
    const [node] = connectToEach(t, redis.urls);
    const ttls = [];
    for (const key of (await node?.keys(`${app.prefix}:*`)) ?? []) ttls.push(Number(await node?.ttl(key)));
    const longest = Math.max(...ttls);
    t.ok(longest > 172_000 && longest <= 172_800, `nothing is forgotten later: ${longest} s`);
  });

  t.test('a delivery or an order that comes again does nothing, whatever happened since', async (t) => {
    const { who, order } = await newBuyer();
    const again = { ...order, id: `gid://shopify/Order/${order.id}` };
    const other = orderOf({ id: customers }, [LINE]);
    t.equal((await deliver(app, order, 'seen-1')).status, 200);
    await add(app, who, WISHED);
    for (const [sent, id, why] of [
      [order, 'seen-1', 'the same delivery'],
      [other, 'seen-1', 'the same delivery with another body'],
      [order, 'seen-2', 'another delivery: a party that saw one could send it again'],
      [order, '', 'without an id'],
      [again, 'seen-3', 'the same order, as a gid'],
      [again, '', 'the same order, as a gid, without an id'],
    ] as const)
      t.match(await deliver(app, sent, id), { status: 200, text: '{}' }, why);
    t.same(await listed(app, who), [WISHED]);
    t.equal(await events(who), 1);
    await deliver(app, other, 'seen-4');
    t.same(await listed(app, who), [], 'another delivery of another order is another purchase');

    const second = await newBuyer();
    await deliver(app, second.order, '');
    await add(app, second.who, WISHED);
    await deliver(app, second.order, 'now-with-an-id');
    t.same(await listed(app, second.who), [WISHED], 'a delivery without an id is known by its order');
    await deliver(app, { ...second.order, id: second.order.id + 1_000_000 }, '');
    t.same(await listed(app, second.who), []);
  });

  t.test('settings are false at first, hold on every server, and wrong ones change nothing', async (t) => {
    const app = await startApp(t, redis);
    const second = await startApp(t, redis, { prefix: app.prefix });
    const put = (body: unknown) => app.send('PUT', '/settings', body, TRUSTED);
    const read = async (by: TestApp) => (await by.get('/settings', TRUSTED)).text;
    t.equal(await read(app), '{"autoRemoveAfterPurchase":false}');
    for (const autoRemoveAfterPurchase of [true, true, false, true]) {
      const text = JSON.stringify({ autoRemoveAfterPurchase });
      const body = { autoRemoveAfterPurchase, later: 'ignored' };
      t.match(await put(body), { status: 200, text });
      for (const by of [app, second]) t.equal(await read(by), text);
    }
    const before = await dumpRedis(redis, app.prefix);
    const values = [undefined, null, 'true', 1, 0, '', [], [true], {}];
    const bodies = values.map((autoRemoveAfterPurchase): unknown => ({ autoRemoveAfterPurchase }));
    for (const body of [undefined, null, [], true, '{', ...bodies])
      t.equal((await put(body)).status, 400, JSON.stringify(body));
    t.same((await put({})).json.issues, [{ path: '/autoRemoveAfterPurchase', message: 'is required' }]);
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('with the setting off nothing is removed, and the order is remembered all the same', async (t) => {
    const off = await startApp(t, redis, { env });
    const { who, order } = await newBuyer(off);
    const other = orderOf({ id: customers }, [LINE]);
    t.match(await deliver(off, order, 'off-1'), { status: 200, text: '{}' });
    await switchTo(off, true);
    await switchTo(off, false);
    t.equal((await deliver(off, other, 'off-2')).status, 200, 'off is off at once');
    t.same(await listed(off, who), [WISHED]);
    await switchTo(off, true);
    for (const id of ['off-1', 'off-3', '']) t.equal((await deliver(off, order, id)).status, 200);
    t.same(await listed(off, who), [WISHED], 'a repeat does nothing');
    const ids = (await orders(off)).map(({ order_id }) => order_id);
    t.same(ids, [String(order.id), String(other.id)], 'each order is there once');
    await deliver(off, orderOf({ id: customers }, [LINE]));
    t.same(await listed(off, who), [], 'a new one is acted on');
  });

  t.test('an order is authentic by its signature or by a secret key, else 401', async (t) => {
    const { who, order } = await newBuyer();
    const body = JSON.stringify(order);
    const signature = sign(body);
    const before = await dumpRedis(redis, app.prefix);
    const wrong: Headers[] = [
      {},
      ...[
        '',
        'x',
        sign(body, 'hush!'),
        sign(`${body} `),
        signature.slice(0, -1),
        signature.replace(/=$/, ''),
        `${signature}=`,
        signature.toLowerCase(),
        Buffer.from(signature, 'base64').toString('hex'),
        Buffer.from(signature, 'base64').toString('base64url'),
      ].map((wrong) => ({ 'x-shopify-hmac-sha256': wrong })),
      { authorization: 'Bearer wrong-key-wrong-key', 'x-shopify-hmac-sha256': signature },
      { 'x-api-key': SECRET },
    ];
    const unauthorized = { status: 401, headers: { 'www-authenticate': 'Bearer' } };
    for (const headers of wrong) {
      const answer = await app.post(PATH, body, { ...JSON_TYPE, ...headers });
      t.match(answer, { ...unauthorized, json: { code: 'unauthorized' } }, JSON.stringify(headers));
    }
    t.same(await dumpRedis(redis, app.prefix), before);
    t.equal((await app.post(PATH, body, { ...JSON_TYPE, 'x-api-key': KEY })).status, 200);
    t.same(await listed(app, who), []);
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
    const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body), 'x-shopify-webhook-id': 'bytes' };
    t.equal((await app.post(PATH, pieces, headers)).status, 200);
    t.same(await listed(app, who), []);
  });

  t.test('an order may have 1 MiB and no more', async (t) => {
    const { who, order } = await newBuyer();
    const ofBytes = (bytes: number) => {
      const rest = bytes - JSON.stringify({ ...order, fill: '' }).length;
      return JSON.stringify({ ...order, fill: 'x'.repeat(rest) });
    };
    t.match(await deliver(app, ofBytes(1_048_577)), { status: 413, json: { code: 'payload_too_large' } });
    t.same(await listed(app, who), [WISHED]);
    t.equal((await deliver(app, ofBytes(1_048_576))).status, 200);
    t.same(await listed(app, who), []);
  });

  t.test('what is no order is 400 and changes nothing', async (t) => {
    const { who } = await newBuyer();
    const right = { customer: { id: who.customerId }, line_items: [LINE] };
    const before = await dumpRedis(redis, app.prefix);
    for (const body of ['{', "{'id':1}", '{"id":1}}', '{"id":00000000000000001}', '[1,', 'id=1'])
      t.match(await deliver(app, body), { status: 400, json: { code: 'invalid_json' } }, body);
    const broken = Buffer.from('{"id":1,"line_items":[],"note":"\xff"}', 'latin1');
    const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(broken) };
    t.match(await app.post(PATH, broken, headers), { status: 400, json: { code: 'invalid_json' } });
    const faulty: [string, unknown[]][] = [
      ['', ['', 'null', '[]', '"order"', '1']],
      [
        '/id',
        [undefined, null, '', ' ', 1.5, 0, -1, true, [], {}, 'x'.repeat(256), 'a\u0000'].map((id) => ({
          ...right,
          id,
        })),
      ],
      ['/line_items', [undefined, null, {}, 'x', 1].map((line_items) => ({ id: 1, line_items }))],
    ];
    for (const [path, bodies] of faulty)
      for (const body of bodies) {
        const { status, json } = await deliver(app, body as object | string);
        t.match({ status, json }, { status: 400, json: { code: 'invalid_request' } }, JSON.stringify(body));
        t.same([...new Set(json.issues.map((issue: { path: string }) => issue.path))], [path]);
      }
    t.equal((await deliver(app, { ...right, id: 1 }, 'x'.repeat(256))).status, 400);
    t.same(await dumpRedis(redis, app.prefix), before);
  });
});

// POST /webhook/purchase: who may deliver, what is no order, and that deliveries repeat.

import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, type Headers, KEY, startApp, TRUSTED } from '../harness/app.js';
import { connectTo, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
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
  sign,
  switchTo,
} from './orders.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  await switchTo(app, true);
  const keys = createKeys(app.prefix);
  const isRequest = keyPattern(keys.request('*'), keys.requests('*.*'), keys.operation('*.*', '*'));
  const isStream = keyPattern(keys.events(0), keys.eventsState(0));
  const purchases = (who: { sessionId?: string; customerId?: string }, of = app) =>
    purchasesOf(redis, of, who);

  t.test(
    'nothing matched, or no known visitor: 200, and all that changes is who is known, that the order is remembered, and its lines',
    async (t) => {
      const who = { customerId: '60' };
      await add(app, who, ['60', '600']);
      const before = await dumpRedis(redis, app.prefix);
      const strangers = [
        orderOf({ id: 60 }, [{ product_id: 61, variant_id: 610 }]),
        orderOf({ id: 60 }, []),
        orderOf({ id: 99_999 }, [{ product_id: 60, variant_id: 600 }]),
        orderOf(null, [{ product_id: 60, variant_id: 600 }]),
        orderOf({ id: 0 }, [{ product_id: 60, variant_id: 600 }]),
        orderOf('60', [{ product_id: 60, variant_id: 600 }]),
        orderOf(null, [{ product_id: 60, variant_id: 600 }], {
          note_attributes: [{ name: 'wishlist_session_id', value: 'nobody' }],
        }),
        orderOf(null, [{ product_id: 60, variant_id: 600 }], {
          note_attributes: [{ name: 'wishlist_session_id', value: 'undefined' }],
        }),
        orderOf(null, [{ product_id: 60 }], { note_attributes: { wishlist_session_id: 'x' } }),
      ];
      for (const order of strangers) t.match(await deliver(app, order), { status: 200, text: '{}' });
      const after = await dumpRedis(redis, app.prefix);
      const lasting = (dump: typeof after) =>
        Object.fromEntries(
          Object.entries(dump).filter(([key]) => !isRequest.test(key) && !isStream.test(key)),
        );
      const isIdentity = keyPattern(keys.ids('*'), keys.door('*.*'));
      const others = (dump: typeof after) =>
        Object.fromEntries(Object.entries(lasting(dump)).filter(([key]) => !isIdentity.test(key)));
      t.same(others(after), others(before));
      const fresh = Object.keys(after).filter((key) => !(key in before) && isRequest.test(key));
      t.ok(fresh.length >= 2 * 4, 'of orders that name a visitor: the delivery, and the order');
      const told = (await rowsOf(redis, app)).filter(({ origin }) => origin === 'order');
      t.same(
        told.map(({ customer_id, session_id }) => customer_id ?? session_id),
        ['60', '99999', 'nobody'],
      );
      await assertAllExpire(t, fresh);
    },
  );

  async function assertAllExpire(t: Test, keys: readonly string[]): Promise<void> {
    const ttls = new Map<string, number>();
    for (const url of redis.urls) {
      const client = connectTo(url);
      const here = new Set(await client.keys(`${app.prefix}:*`));
      for (const key of keys.filter((key) => here.has(key))) ttls.set(key, await client.ttl(key));
      client.disconnect();
    }
    t.same([...ttls.keys()].toSorted(), keys.toSorted(), 'each is on one of the nodes');
    for (const [key, ttl] of ttls)
      t.ok(ttl > 172_000 && ttl <= 172_800, `${key} is remembered for 48 h, not ${ttl} s`);
  }

  t.test('a delivery that failed half-way is completed by a repeat, under its id or another', async (t) => {
    const full = await startApp(t, redis, {
      prefix: app.prefix,
      env: { SHOPIFY_SECRET: SECRET, STREAM_HIGH_WATER: '1' },
    });
    // Else a repeat waits for half a second, twice, before it takes the first try for one that has ended.
    const fast = await startApp(t, redis, {
      prefix: app.prefix,
      env: { SHOPIFY_SECRET: SECRET },
      timing: { requestGraceMs: 20 },
    });
    for (const [i, repeatedAs] of ['failed-0', 'other', ''].entries()) {
      const who = { customerId: `74${i}` };
      await add(app, who, ['70', '700']);
      const order = orderOf({ id: Number(who.customerId) }, [{ product_id: 70, variant_id: 700 }]);
      t.equal((await deliver(full, order, `failed-${i}`)).status, 503, 'no room for its event');
      t.equal((await purchases(who)).length, 0);
      t.equal((await deliver(fast, order, repeatedAs)).status, 200);
      t.same(await listed(app, who), [], repeatedAs);
      t.equal((await purchases(who)).length, 1, `the event is made by the repeat: ${repeatedAs}`);
      await add(app, who, ['70', '700']);
      for (const id of [`failed-${i}`, repeatedAs, 'yet-another'])
        t.equal((await deliver(fast, order, id)).status, 200);
      t.same(await listed(app, who), [['70', '700']], 'and then it is done');
      t.equal((await purchases(who)).length, 1);
    }
  });

  t.test('delivered 50 times at once over two servers it is done once', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix, env: { SHOPIFY_SECRET: SECRET } });
    const who = { customerId: '72' };
    await add(app, who, ['70', '700'], ['70', null], ['71', '710']);
    const order = orderOf({ id: 72 }, [
      { product_id: 70, variant_id: 700 },
      { product_id: 71, variant_id: 710 },
    ]);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) => deliver(i % 2 ? app : second, order, 'at-once')),
    );
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
    t.same(await listed(app, who), []);
    const events = await purchases(who);
    t.equal(events.length, 3);
    t.equal(new Set(events.map(({ event_id }) => event_id)).size, 3);
  });

  // An order and its delivery have records in slots of their own; the rest depends on no more than that.
  if (redis.urls.length > 1) return;

  t.test(
    'the same delivery again does nothing, whatever happened since and whatever its body is',
    async (t) => {
      const who = { customerId: '70' };
      await add(app, who, ['70', '700']);
      const order = orderOf({ id: 70 }, [{ product_id: 70, variant_id: 700 }]);
      t.equal((await deliver(app, order, 'repeat-1')).status, 200);
      await add(app, who, ['70', '700']);
      for (let i = 0; i < 3; i++) t.match(await deliver(app, order, 'repeat-1'), { status: 200, text: '{}' });
      await deliver(app, orderOf({ id: 70 }, [{ product_id: 70, variant_id: 700 }]), 'repeat-1');
      t.same(await listed(app, who), [['70', '700']]);
      t.equal((await purchases(who)).length, 1);
      const other = orderOf({ id: 70 }, [{ product_id: 70, variant_id: 700 }]);
      await deliver(app, other, 'repeat-1');
      t.same(await listed(app, who), [['70', '700']], 'also where its body is another');
      await deliver(app, other, 'repeat-2');
      t.same(await listed(app, who), [], 'another delivery of another order is another purchase');
    },
  );

  t.test(
    'an order under another delivery id does nothing: a party that saw one could send it again',
    async (t) => {
      const who = { customerId: '73' };
      await add(app, who, ['70', '700']);
      const order = orderOf({ id: 73 }, [{ product_id: 70, variant_id: 700 }]);
      await deliver(app, order, 'seen-1');
      await add(app, who, ['70', '700']);
      for (const id of ['seen-2', 'seen-3', '', 'seen-1', 'seen-2'])
        t.match(await deliver(app, order, id), { status: 200, text: '{}' }, id);
      await deliver(app, { ...order, id: `gid://shopify/Order/${order.id}` }, 'seen-4');
      t.same(await listed(app, who), [['70', '700']]);
      t.equal((await purchases(who)).length, 1);
    },
  );

  t.test('a delivery without an id is known by its order', async (t) => {
    const who = { customerId: '71' };
    await add(app, who, ['70', '700']);
    const order = orderOf({ id: 71 }, [{ product_id: 70, variant_id: 700 }]);
    await deliver(app, order, '');
    await add(app, who, ['70', '700']);
    await deliver(app, order, 'now-with-an-id');
    await deliver(app, { ...order, id: `gid://shopify/Order/${order.id}` }, '');
    t.same(await listed(app, who), [['70', '700']]);
    await deliver(app, { ...order, id: order.id + 1_000_000 }, '');
    t.same(await listed(app, who), []);
  });

  t.test('with the setting off nothing is removed, and the order is remembered all the same', async (t) => {
    const off = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
    const who = { customerId: '80' };
    await add(off, who, ['80', '800']);
    const order = orderOf({ id: 80 }, [{ product_id: 80, variant_id: 800 }]);
    const other = orderOf({ id: 80 }, [{ product_id: 80, variant_id: 800 }]);
    t.match(await deliver(off, order, 'off-1'), { status: 200, text: '{}' });
    await switchTo(off, true);
    await switchTo(off, false);
    t.equal((await deliver(off, other, 'off-2')).status, 200, 'off is off at once');
    t.same(await listed(off, who), [['80', '800']]);
    await switchTo(off, true);
    for (const id of ['off-1', 'off-3', '']) t.equal((await deliver(off, order, id)).status, 200);
    t.same(await listed(off, who), [['80', '800']], 'a repeat does nothing');
    const lines = (await rowsOf(redis, off)).filter(({ origin }) => origin === 'order');
    t.same(
      lines.map(({ order_id }) => order_id),
      [String(order.id), String(other.id)],
      'each order is told once',
    );
    await deliver(off, orderOf({ id: 80 }, [{ product_id: 80, variant_id: 800 }]));
    t.same(await listed(off, who), [], 'a new one is acted on');
  });

  t.test(
    'an order is authentic by its signature or by a secret key, else 401 and nothing changes',
    async (t) => {
      const who = { customerId: '95' };
      await add(app, who, ['95', '950']);
      const body = JSON.stringify(orderOf({ id: 95 }, [{ product_id: 95, variant_id: 950 }]));
      const signature = sign(body);
      const before = await dumpRedis(redis, app.prefix);
      const wrong: Headers[] = [
        {},
        { 'x-shopify-hmac-sha256': '' },
        { 'x-shopify-hmac-sha256': 'x' },
        { 'x-shopify-hmac-sha256': sign(body, 'hush!') },
        { 'x-shopify-hmac-sha256': sign(`${body} `) },
        { 'x-shopify-hmac-sha256': sign(body.replace('950', '951')) },
        { 'x-shopify-hmac-sha256': signature.slice(0, -1) },
        { 'x-shopify-hmac-sha256': signature.replace(/=$/, '') },
        { 'x-shopify-hmac-sha256': `${signature}=` },
        { 'x-shopify-hmac-sha256': signature.toLowerCase() },
        { 'x-shopify-hmac-sha256': Buffer.from(signature, 'base64').toString('hex') },
        { 'x-shopify-hmac-sha256': Buffer.from(signature, 'base64').toString('base64url') },
        { authorization: 'Bearer wrong-key-wrong-key', 'x-shopify-hmac-sha256': signature },
        { 'x-api-key': SECRET },
      ];
      for (const headers of wrong) {
        const answer = await app.post(PATH, body, { ...JSON_TYPE, ...headers });
        t.match(answer, { status: 401, json: { code: 'unauthorized' } }, JSON.stringify(headers));
        t.equal(answer.headers['www-authenticate'], 'Bearer');
      }
      t.equal((await app.post(PATH, '{', JSON_TYPE)).status, 401, 'asked for before the body is parsed');
      t.same(await dumpRedis(redis, app.prefix), before);
      t.equal((await app.post(PATH, body, { ...JSON_TYPE, 'x-api-key': KEY })).status, 200);
      t.same(await listed(app, who), []);
    },
  );

  t.test("what can't be right is 401 before its body comes", async (t) => {
    const plain = await startApp(t, redis);
    const cases: [of: typeof app, headers: Record<string, string>][] = [
      [app, {}],
      [app, { 'x-shopify-hmac-sha256': 'x' }],
      [app, { 'x-shopify-hmac-sha256': `${sign('')}=` }],
      [app, { 'x-shopify-hmac-sha256': sign('').replace(/.=$/, '_=') }],
      [plain, { 'x-shopify-hmac-sha256': sign('') }],
    ];
    for (const [of, headers] of cases) {
      const wire = await Wire.open(t, of.port);
      wire.sendHead('POST', PATH, { 'content-length': '1000', ...headers });
      t.match(await wire.next(), { status: 401, body: /"code":"unauthorized"/ }, JSON.stringify(headers));
    }
  });

  t.test('the signature is of the bytes as they came, however they are written and cut', async (t) => {
    const who = { customerId: '96' };
    await add(app, who, ['96', '960']);
    const order = orderOf({ id: 96 }, [{ product_id: 96, variant_id: 960 }], { note: 'é 😀 </script>' });
    const body = Buffer.from(JSON.stringify(order, null, 3).replace('é', '\\u00e9'));
    const pieces = [body.subarray(0, 7), body.subarray(7, 8), body.subarray(8)];
    const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body), 'x-shopify-webhook-id': 'bytes' };
    t.equal((await app.post(PATH, pieces, headers)).status, 200);
    t.same(await listed(app, who), []);
  });

  t.test('without a Shopify secret no signature is right, not even that of an empty one', async (t) => {
    const plain = await startApp(t, redis);
    const body = JSON.stringify(orderOf({ id: 1 }, []));
    for (const secret of ['', SECRET]) {
      const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(body, secret) };
      t.equal((await plain.post(PATH, body, headers)).status, 401);
    }
    t.equal((await plain.post(PATH, body, { ...JSON_TYPE, ...TRUSTED })).status, 200);
  });

  t.test('an order may have 1 MiB and no more', async (t) => {
    const who = { customerId: '97' };
    await add(app, who, ['97', '970']);
    const ofBytes = (bytes: number) => {
      const order = orderOf({ id: 97 }, [{ product_id: 97, variant_id: 970 }], { fill: '' });
      return JSON.stringify({ ...order, fill: 'x'.repeat(bytes - JSON.stringify(order).length) });
    };
    t.match(await deliver(app, ofBytes(1_048_577)), { status: 413, json: { code: 'payload_too_large' } });
    t.same(await listed(app, who), [['97', '970']]);
    t.equal((await deliver(app, ofBytes(1_048_576))).status, 200);
    t.same(await listed(app, who), []);
  });

  t.test('what is no order is 400 and changes nothing', async (t) => {
    await add(app, { customerId: '99' }, ['99', '990']);
    const right = { customer: { id: 99 }, line_items: [{ product_id: 99, variant_id: 990 }] };
    const before = await dumpRedis(redis, app.prefix);
    const notJson = ['{', 'x', "{'id':1}", '{"id":1}}', '{"id":00000000000000001}', '[1,', 'id=1'];
    for (const body of notJson) {
      t.match(await deliver(app, body), { status: 400, json: { code: 'invalid_json' } }, body);
    }
    const broken = Buffer.from('{"id":1,"line_items":[],"note":"\xff"}', 'latin1');
    const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(broken) };
    t.match(await app.post(PATH, broken, headers), { status: 400, json: { code: 'invalid_json' } });
    const faulty: [string, string][] = [
      ['', ''],
      ['null', ''],
      ['[]', ''],
      ['"order"', ''],
      ['1', ''],
      [JSON.stringify(right), '/id'],
      ...[null, '', ' ', 1.5, 0, -1, true, [], {}, 'x'.repeat(256), 'a\u0000'].map((id): [string, string] => [
        JSON.stringify({ ...right, id }),
        '/id',
      ]),
      [JSON.stringify({ id: 1, customer: { id: 99 } }), '/line_items'],
      ...[null, {}, 'x', 1].map((line_items): [string, string] => [
        JSON.stringify({ id: 1, customer: { id: 99 }, line_items }),
        '/line_items',
      ]),
    ];
    for (const [body, path] of faulty) {
      const { status, json } = await deliver(app, body);
      t.match({ status, json }, { status: 400, json: { code: 'invalid_request' } }, body.slice(0, 60));
      t.ok(
        json.issues.every((issue: { path: string }) => issue.path === path),
        body.slice(0, 60),
      );
    }
    const longId = await deliver(app, { ...right, id: 1 }, 'x'.repeat(256));
    t.match(longId, { status: 400, json: { code: 'invalid_request' } });
    t.same(await dumpRedis(redis, app.prefix), before);
  });
});

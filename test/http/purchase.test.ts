// POST /webhook/purchase: who may deliver, whose order it is, what leaves the wishlist, and that deliveries repeat.

import { createHmac } from 'node:crypto';
import t, { type Test } from 'tap';
import { eachRedis, type Headers, KEY, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { connectTo, dumpRedis } from '../harness/dump.js';
import { eventsOf, gist } from '../harness/stream.js';
import { itemOf } from './wishlist.js';

const PATH = '/webhook/purchase';
const SECRET = 'hush';
const JSON_TYPE = { 'content-type': 'application/json' };

const sign = (body: string | Buffer, secret = SECRET) =>
  createHmac('sha256', secret).update(body).digest('base64');

let deliveries = 0;

/** As Shopify delivers; the body may be a text, so that it can have numbers that JavaScript has not. */
function deliver(
  app: TestApp,
  order: object | string,
  id = `delivery-${++deliveries}`,
  headers: Headers = {},
) {
  const body = typeof order === 'string' ? order : JSON.stringify(order);
  return app.post(PATH, body, {
    ...JSON_TYPE,
    'x-shopify-topic': 'orders/paid',
    'x-shopify-hmac-sha256': sign(body),
    ...(id === '' ? {} : { 'x-shopify-webhook-id': id }),
    ...headers,
  });
}

const LINE = { quantity: 1, price: '79.90' };
let orders = 1_000;
const orderOf = (customer: unknown, lines: readonly object[], rest: object = {}) => ({
  id: ++orders,
  customer,
  line_items: lines.map((line) => ({ ...LINE, ...line })),
  ...rest,
});

const listed = async (app: TestApp, identity: object): Promise<[string, string | null][]> => {
  const { json } = await app.post('/item/list', { identity }, TRUSTED);
  return json.items.map((item: { productId: string; variantId: string | null }) => [
    item.productId,
    item.variantId,
  ]);
};

async function add(app: TestApp, identity: object, ...ids: [string, string | null][]): Promise<void> {
  for (const [productId, variantId] of ids) {
    const { status } = await app.post('/item/add', itemOf(identity, { productId, variantId }), TRUSTED);
    if (status !== 200) throw new Error(`add: ${status}`);
  }
}

const switchTo = (app: TestApp, autoRemoveAfterPurchase: boolean) =>
  app.send('PUT', '/settings', { autoRemoveAfterPurchase }, TRUSTED);

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  await switchTo(app, true);
  const purchases = async (who: { sessionId?: string; customerId?: string }, of = app) =>
    (await eventsOf(redis, of, who)).filter(({ type }) => type === 'autoRemoveAfterPurchase');

  t.test('what was bought leaves the wishlist, with one event each, and nothing else does', async (t) => {
    const who = { customerId: '1' };
    await add(app, who, ['10', '100'], ['10', null], ['10', '101'], ['11', '110'], ['12', null]);
    const order = orderOf({ id: 1 }, [
      { product_id: 10, variant_id: 100, quantity: 3, price: '12.50' },
      { product_id: 12, variant_id: 120 },
      { product_id: 13, variant_id: 130 },
    ]);
    const answer = await deliver(app, order);
    t.match(answer, { status: 200, text: '{}' });
    t.same(await listed(app, who), [
      ['11', '110'],
      ['10', '101'],
    ]);
    const events = await purchases(who);
    const orderId = String(order.id);
    t.same(
      events.map((event) => gist(event)).sort(byText),
      [
        { productId: '10', variantId: '100', quantity: 3, price: '12.50' },
        { productId: '10', variantId: null, quantity: 3, price: '12.50' },
        { productId: '12', variantId: null, quantity: 1, price: '79.90' },
      ]
        .map((payload) => ({
          type: 'autoRemoveAfterPurchase',
          origin: 'purchase',
          payload: { orderId, ...payload },
        }))
        .sort(byText),
    );
    t.match(
      events.find(({ variant_id }) => variant_id === '100'),
      { customer_id: '1', product_id: '10', quantity: 3, price: '12.50' },
    );
  });

  t.test('an order without a customer is looked up by its note attribute', async (t) => {
    const who = { sessionId: 'guest-buyer' };
    await add(app, who, ['20', '200'], ['21', '210']);
    const note_attributes = [
      null,
      { name: 'gift', value: 'yes' },
      { name: 'wishlist_session_id', value: 'guest-buyer' },
    ];
    await deliver(app, orderOf(null, [{ product_id: 20, variant_id: 200 }], { note_attributes }));
    t.same(await listed(app, who), [['21', '210']]);
    t.match(await purchases(who), [{ session_id: 'guest-buyer' }]);
    const noCustomer = orderOf(undefined, [{ product_id: 21, variant_id: 210 }], { note_attributes });
    await deliver(app, noCustomer);
    t.same(await listed(app, who), []);
  });

  t.test('where the order has a customer, the note attribute is not asked', async (t) => {
    const [guest, customer] = [{ sessionId: 'noted' }, { customerId: '22' }];
    await add(app, guest, ['20', '200']);
    await add(app, customer, ['20', '200']);
    const note_attributes = [{ name: 'wishlist_session_id', value: 'noted' }];
    await deliver(app, orderOf({ id: 22 }, [{ product_id: 20, variant_id: 200 }], { note_attributes }));
    t.same([await listed(app, customer), await listed(app, guest)], [[], [['20', '200']]]);
  });

  t.test(
    'ids may be numbers, digits as text or gids, and are exact beyond what a double holds',
    async (t) => {
      const big = '820982911946154508';
      const who = { customerId: big };
      const ids: [string, string | null][] = [
        ['9007199254740993', '9223372036854775807'],
        ['30', '300'],
        ['31', '310'],
        ['9007199254740992', null],
        ['9007199254740994', null],
      ];
      await add(app, who, ...ids);
      await deliver(
        app,
        `{"id": ${big}, "total": 0.12345678901234567890, "note": "\\"${big}, ${big}:", "customer": {"id":${big}},
        "line_items": [
          {"product_id": 9007199254740993, "variant_id":9223372036854775807,"quantity":1,"price":"1.00"},
          {"product_id": "30", "variant_id": "300"},
          {"product_id": "gid://shopify/Product/31", "variant_id": "gid://shopify/ProductVariant/310"}]}`,
      );
      t.same(await listed(app, who), [
        ['9007199254740994', null],
        ['9007199254740992', null],
      ]);
      const payloads = (await purchases(who)).map(({ payload }) => JSON.parse(String(payload)));
      t.same(new Set(payloads.map(({ orderId }) => orderId)), new Set([big]));
      t.same(
        payloads.find(({ productId }) => productId === '30'),
        { orderId: big, productId: '30', variantId: '300', quantity: null, price: null },
        'a line without quantity and price says so',
      );
    },
  );

  t.test('lines without a product: by their variant where they have one, else nothing', async (t) => {
    const who = { customerId: '40' };
    await add(app, who, ['40', '400'], ['41', null], ['42', '420']);
    const lines = [
      { product_id: null, variant_id: null },
      {},
      { product_id: null, variant_id: 400 },
      { product_id: '', variant_id: {} },
      { product_id: 1.5, variant_id: true },
    ];
    t.equal((await deliver(app, orderOf({ id: 40 }, lines))).status, 200);
    t.same(await listed(app, who), [
      ['42', '420'],
      ['41', null],
    ]);
    await deliver(app, orderOf({ id: 40 }, [{ product_id: 42 }, { product_id: 41 }]));
    t.same(await listed(app, who), [['42', '420']], 'a line without a variant takes what has none');
  });

  t.test('lines of one item add up to one event', async (t) => {
    const who = { customerId: '50' };
    await add(app, who, ['50', '500'], ['50', null]);
    const lines = [
      { product_id: 50, variant_id: 500, quantity: 2, price: '5.00' },
      { product_id: 50, variant_id: 500, quantity: 1, price: '4.00' },
      { product_id: 50, variant_id: 501, quantity: 4, price: '6.00' },
    ];
    await deliver(app, orderOf({ id: 50 }, lines));
    const events = await purchases(who);
    t.equal(events.length, 2);
    t.match(
      events.find(({ variant_id }) => variant_id === '500'),
      { quantity: 3, price: '5.00' },
    );
    t.match(
      events.find(({ variant_id }) => variant_id === undefined),
      { quantity: 7, price: '5.00' },
    );
  });

  t.test(
    'nothing matched, or nobody known: 200, and nothing changed but that the delivery is remembered',
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
        Object.fromEntries(Object.entries(dump).filter(([key]) => !/\{once:|:k:/.test(key)));
      t.same(lasting(after), lasting(before));
      await assertAllExpire(
        t,
        Object.keys(after).filter((key) => /\{once:|:k:/.test(key)),
      );
    },
  );

  async function assertAllExpire(t: Test, keys: readonly string[]): Promise<void> {
    t.ok(keys.length > 0);
    for (const url of redis.urls) {
      const client = connectTo(url);
      for (const key of keys) {
        const ttl = await client.ttl(key).catch(() => 172_800); // on another node of the cluster
        t.ok(ttl > 172_000 && ttl <= 172_800, `${key} is remembered for 48 h`);
      }
      client.disconnect();
    }
  }

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
      await deliver(app, order, 'repeat-2');
      t.same(await listed(app, who), [], 'another delivery id is another delivery');
    },
  );

  t.test('a delivery without an id is known by its order', async (t) => {
    const who = { customerId: '71' };
    await add(app, who, ['70', '700']);
    const order = orderOf({ id: 71 }, [{ product_id: 70, variant_id: 700 }]);
    await deliver(app, order, '');
    await add(app, who, ['70', '700']);
    await deliver(app, { ...order, id: `gid://shopify/Order/${order.id}` }, '');
    t.same(await listed(app, who), [['70', '700']]);
    await deliver(app, { ...order, id: order.id + 1_000_000 }, '');
    t.same(await listed(app, who), []);
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

  t.test('with the setting off nothing is removed and nothing remembered', async (t) => {
    const off = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
    const who = { customerId: '80' };
    await add(off, who, ['80', '800']);
    const order = orderOf({ id: 80 }, [{ product_id: 80, variant_id: 800 }]);
    const before = await dumpRedis(redis, off.prefix);
    t.match(await deliver(off, order, 'off-1'), { status: 200, text: '{}' });
    await switchTo(off, true);
    await switchTo(off, false);
    t.equal((await deliver(off, order, 'off-2')).status, 200, 'off is off at once');
    const after = { ...(await dumpRedis(redis, off.prefix)) } as Record<string, unknown>;
    delete after[`${off.prefix}:settings`];
    t.same(after, before);
    await switchTo(off, true);
    await deliver(off, order, 'off-1');
    t.same(await listed(off, who), []);
  });

  t.test('a merged customer is found, and the removal follows the wishlist', async (t) => {
    const [guest, customer] = [{ sessionId: 'later-known' }, { customerId: '90' }];
    await add(app, guest, ['90', '900']);
    await add(app, customer, ['91', '910']);
    await app.post('/profile/merge', { identity: { ...guest, ...customer } }, TRUSTED);
    const note_attributes = [{ name: 'wishlist_session_id', value: 'later-known' }];
    await deliver(app, orderOf(null, [{ product_id: 91, variant_id: 910 }], { note_attributes }));
    await deliver(app, orderOf({ id: 90 }, [{ product_id: 90, variant_id: 900 }]));
    t.same(await listed(app, customer), []);
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

  t.test('an order of thousands of lines against a wishlist of hundreds is answered in time', async (t) => {
    const who = { customerId: '98' };
    for (let from = 0; from < 500; from += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, i) => add(app, who, [String(98_000 + from + i), '1'])),
      );
    }
    const lines = Array.from({ length: 8_000 }, (_, i) => ({ product_id: 98_000 + i, variant_id: 1 }));
    const began = performance.now();
    t.equal((await deliver(app, orderOf({ id: 98 }, lines))).status, 200);
    t.ok(performance.now() - began < 1_000, 'within 1 s');
    t.same(await listed(app, who), []);
    t.equal((await purchases(who)).length, 500);
  });

  t.test('what is no order is 400 and changes nothing', async (t) => {
    await add(app, { customerId: '99' }, ['99', '990']);
    const right = { customer: { id: 99 }, line_items: [{ product_id: 99, variant_id: 990 }] };
    const before = await dumpRedis(redis, app.prefix);
    const notJson = ['', '{', 'x', "{'id':1}", '{"id":1}}', '{"id":00000000000000001}', '[1,', 'id=1'];
    for (const body of notJson) {
      t.match(await deliver(app, body), { status: 400, json: { code: 'invalid_json' } }, body);
    }
    const broken = Buffer.from('{"id":1,"line_items":[],"note":"\xff"}', 'latin1');
    const headers = { ...JSON_TYPE, 'x-shopify-hmac-sha256': sign(broken) };
    t.match(await app.post(PATH, broken, headers), { status: 400, json: { code: 'invalid_json' } });
    const faulty: [string, string][] = [
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

  t.test('parts of an order that do not matter may be anything', async (t) => {
    const who = { customerId: '100' };
    const odd = {
      customer: { id: '100', email: 5, default_address: [] },
      note_attributes: 'none',
      email: {},
      refunds: null,
      total_price: -0.5e-7,
    };
    for (const line of [
      {},
      { quantity: 'two', price: 12.5 },
      { quantity: -1, price: {} },
      { quantity: 1e300, price: 'x'.repeat(40) },
    ]) {
      await add(app, who, ['100', '1000']);
      const line_items = [null, 1, 'x', [], { product_id: 100, variant_id: 1000, ...line }];
      t.equal((await deliver(app, { id: ++orders, ...odd, line_items })).status, 200);
      t.same(await listed(app, who), []);
    }
    const payloads = (await purchases(who)).map(({ payload }) => JSON.parse(String(payload)));
    t.same(
      payloads.map(({ quantity, price }) => [quantity, price]),
      [
        [null, null],
        [null, '12.50'],
        [null, null],
        [null, null],
      ],
    );
  });
});

function byText(a: object, b: object): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
}

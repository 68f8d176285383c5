// POST /webhook/purchase: what was bought, for how much, which orders are left out; what leaves the wishlist, with one event
// for each item; and what analysts see, each line once.

import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { serve } from '../../src/app/serve.js';
import { readConfig } from '../../src/config.js';
import { KEY, startApp, TRUSTED } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { gist } from '../harness/stream.js';
import {
  add as addItems,
  deliver as deliverTo,
  JSON_TYPE,
  linesOf,
  listed as listedOf,
  orderOf,
  PATH,
  purchasesOf,
  SECRET,
  shopifyOrder,
  sign,
  switchTo,
} from './orders.js';

const redis = await startTestRedis(t);
const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
await switchTo(app, true);

const add = (who: object, ...ids: [string, string | null][]) => addItems(app, who, ...ids);
const listed = (who: object) => listedOf(app, who);
const deliver = (order: object | string, id?: string, headers = {}) => deliverTo(app, order, id, headers);
const events = (who: { customerId: string }) => purchasesOf(redis, app, who);
const rows = (order: { id: unknown }) => linesOf(redis, app, order);
const payloads = async (who: { customerId: string }) =>
  (await events(who)).map(({ payload }) => JSON.parse(String(payload)));
let customers = 8_000;
const newCustomer = () => ({ customerId: String(++customers) });
const PRODUCT = { product_id: 1, variant_id: 2 };

t.test('what was bought leaves the wishlist, with one event each, and nothing else does', async (t) => {
  const who = { customerId: '1' };
  await add(who, ['10', '100'], ['10', null], ['10', '101'], ['11', '110'], ['12', null]);
  const order = orderOf({ id: 1 }, [
    { product_id: 10, variant_id: 100, quantity: 3, price: '12.50' },
    { product_id: 12, variant_id: 120 },
    { product_id: 13, variant_id: 130 },
  ]);
  t.match(await deliver(order), { status: 200, text: '{}' });
  t.same(await listed(who), [
    ['11', '110'],
    ['10', '101'],
  ]);
  const orderId = String(order.id);
  const expected = [
    { orderId, productId: '10', variantId: '100', quantity: 3, price: '12.50' },
    { orderId, productId: '10', variantId: null, quantity: 3, price: '12.50' },
    { orderId, productId: '12', variantId: null, quantity: 1, price: '79.90' },
  ].map((payload) => ({ type: 'autoRemoveAfterPurchase', origin: 'purchase', payload }));
  const made = await events(who);
  t.same(
    new Set(made.map((event) => JSON.stringify(gist(event)))),
    new Set(expected.map((one) => JSON.stringify(one))),
  );
  const ofVariant = made.find(({ variant_id }) => variant_id === '100');
  t.match(ofVariant, { customer_id: '1', product_id: '10', quantity: 3, price: '12.50' });
});

t.test('ids may be numbers, texts or gids, and are exact beyond what a double holds', async (t) => {
  const big = '820982911946154508';
  const who = { customerId: big };
  const neighbours: [string, string | null][] = [
    ['9007199254740992', null],
    ['9007199254740994', null],
  ];
  await add(who, ['9007199254740993', '9223372036854775807'], ['30', '300'], ['31', '310'], ...neighbours);
  await deliver(
    `{"id": ${big}, "total": 0.12345678901234567890, "note": "\\"${big}, ${big}:", "customer": {"id":${big}},
    "line_items": [
      {"product_id": 9007199254740993, "variant_id":9223372036854775807,"quantity":1,"price":"1.00"},
      {"product_id": "30", "variant_id": "300"},
      {"product_id": "gid://shopify/Product/31", "variant_id": "gid://shopify/ProductVariant/310"}]}`,
  );
  t.same(await listed(who), neighbours.toReversed());
  const made = await payloads(who);
  t.same(new Set(made.map(({ orderId }) => orderId)), new Set([big]));
  t.same(
    made.find(({ productId }) => productId === '30'),
    { orderId: big, productId: '30', variantId: '300', quantity: 1, price: null },
    'a line without a quantity is one piece',
  );
});

t.test('ids of 16 digits are exact where none is longer', async (t) => {
  const who = { customerId: '9007199254740993' };
  const other: [string, string] = ['9007199254740992', '9007199254740996'];
  const bought: [string, string] = ['9007199254740993', '9007199254740995'];
  const order = (id: string) =>
    `{"id":${id},"customer":{"id":9007199254740993},
      "line_items":[{"product_id":9007199254740993,"variant_id":9007199254740995,"quantity":1,"price":"1.00"}]}`;
  for (const id of ['9007199254740993', '9007199254740992']) {
    await add(who, bought, other);
    t.equal((await deliver(order(id))).status, 200);
    t.same(await listed(who), [other], 'the order before is another one');
    t.match((await payloads(who)).at(-1), { orderId: id, productId: bought[0], variantId: bought[1] });
  }
});

t.test('lines without a product: by their variant where they have one, else nothing', async (t) => {
  const who = newCustomer();
  await add(who, ['40', '400'], ['41', null], ['42', '420']);
  const lines = [
    { product_id: null, variant_id: null },
    {},
    { product_id: null, variant_id: 400 },
    { product_id: '', variant_id: {} },
    { product_id: 1.5, variant_id: true },
  ];
  t.equal((await deliver(orderOf({ id: customers }, lines))).status, 200);
  t.same(await listed(who), [
    ['42', '420'],
    ['41', null],
  ]);
  await deliver(orderOf({ id: customers }, [{ product_id: 42 }, { product_id: 41 }]));
  t.same(await listed(who), [['42', '420']], 'a line without a variant takes what has none');
});

t.test('lines of one item add up to one event', async (t) => {
  const who = newCustomer();
  await add(who, ['50', '500'], ['50', null]);
  const lines = [
    { product_id: 50, variant_id: 500, quantity: 2, price: '5.00' },
    { product_id: 50, variant_id: 500, quantity: 1, price: '4.00' },
    { product_id: 50, variant_id: 501, quantity: 4, price: '6.00' },
  ];
  await deliver(orderOf({ id: customers }, lines));
  const made = new Map((await events(who)).map((event) => [event['variant_id'], event]));
  t.equal(made.size, 2);
  t.match(made.get('500'), { quantity: 3, price: '5.00' });
  t.match(made.get(undefined), { quantity: 7, price: '5.00' });
});

t.test('parts of an order that do not matter may be anything', async (t) => {
  const who = newCustomer();
  const odd = {
    customer: { id: String(customers), email: 5, default_address: [] },
    note_attributes: 'none',
    email: {},
    refunds: null,
    total_price: -0.5e-7,
  };
  for (const line of [
    {},
    { quantity: null, price: 12.5, total_discount: {} },
    { quantity: '2', current_quantity: null, price: {}, discount_allocations: 'none' },
    { quantity: 3, price: 'x'.repeat(40), discount_allocations: [null, 5, {}], total_discount: [] },
  ]) {
    await add(who, ['100', '1000']);
    const line_items = [null, 1, 'x', [], { product_id: 100, variant_id: 1000, ...line }];
    t.equal((await deliver({ ...orderOf(null, []), ...odd, line_items })).status, 200);
    t.same(await listed(who), []);
  }
  t.same(
    (await payloads(who)).map(({ quantity, price }) => [quantity, price]),
    [
      [1, null],
      [1, '12.50'],
      [2, null],
      [3, null],
    ],
  );
});

const allocated = (...amounts: unknown[]) => ({
  discount_allocations: amounts.map((amount, i) => ({
    amount,
    discount_application_index: i,
    amount_set: {
      shop_money: { amount, currency_code: 'EUR' },
      presentment_money: { amount: '999.99', currency_code: 'USD' },
    },
  })),
});

t.test('a line is paid with its price times its quantity, less its discounts', async (t) => {
  type Sum = string | undefined;
  const cases: [line: object, quantity: number, price: Sum, discount: Sum, amount: Sum][] = [
    [{ price: '79.90' }, 1, '79.90', undefined, '79.90'],
    [{ price: '10.00', quantity: 3, ...allocated('4.50') }, 3, '10.00', '4.50', '25.50'],
    [{ price: '10.00', quantity: 2, ...allocated('2.00', '0.99') }, 2, '10.00', '2.99', '17.01'],
    [{ price: '10.00', ...allocated('1.00'), total_discount: '7.00' }, 1, '10.00', '1.00', '9.00'],
    [{ price: '10.00', discount_allocations: [], total_discount: '3.00' }, 1, '10.00', '3.00', '7.00'],
    [{ price: '10.00', discount_allocations: undefined, total_discount: 2.5 }, 1, '10.00', '2.50', '7.50'],
    [{ price: 10, quantity: '2', ...allocated(0.5, '0.25') }, 2, '10.00', '0.75', '19.25'],
    [{ price: '10.00', ...allocated('10.00') }, 1, '10.00', '10.00', '0.00'],
    [{ price: '1980', ...allocated('198') }, 1, '1980.00', '198.00', '1782.00'],
    [{ price: '12.345', quantity: 2, ...allocated('0.125') }, 2, '12.35', '0.13', '24.57'],
    [{ price: 'free', ...allocated('1.00') }, 1, undefined, '1.00', undefined],
    [{ price: '10.00', quantity: 5, current_quantity: 2 }, 2, '10.00', undefined, '20.00'],
    [{ price: '10.00', quantity: '5', current_quantity: '4' }, 4, '10.00', undefined, '40.00'],
    [{ price: '10.00', quantity: 5, current_quantity: null }, 5, '10.00', undefined, '50.00'],
  ];
  const lines = cases.map(([line], i) => ({ product_id: 100 + i, ...line }));
  const order = orderOf({ id: ++customers }, lines, { currency: 'EUR', presentment_currency: 'USD' });
  t.equal((await deliver(order)).status, 200);
  const found = await rows(order);
  t.equal(found.length, cases.length);
  for (const [i, [line, quantity, price, discount, amount]] of cases.entries()) {
    const row = found.find(({ product_id }) => product_id === String(100 + i)) ?? {};
    t.same(
      [row['quantity'], row['price'], row['discount'], row['amount'], row['currency']],
      [quantity, price, discount, amount, 'EUR'],
      JSON.stringify(line),
    );
  }
});

t.test('of a quantity of 0 nothing was bought: it is no line, and nothing leaves for it', async (t) => {
  const who = newCustomer();
  await add(who, ['1', '1'], ['2', '2'], ['3', '3']);
  const order = orderOf({ id: customers }, [
    { product_id: 1, variant_id: 1, quantity: 0 },
    { product_id: 2, variant_id: 2, quantity: 3, current_quantity: 0 },
    { product_id: 3, variant_id: 3, quantity: 0, current_quantity: '1' },
    { product_id: 4, variant_id: 4, quantity: '0' },
  ]);
  await deliver(order);
  const found = await rows(order);
  t.same([found.length, found[0]?.['product_id'], found[0]?.['quantity']], [1, '3', 1]);
  t.same(await listed(who), [
    ['2', '2'],
    ['1', '1'],
  ]);
});

t.test('a quantity that is no whole number is 400, and the order can be sent again', async (t) => {
  const wrong = [1.5, -1, 'two', '', ' 2', '1.5', '1e3', true, {}, 2 ** 32, '4294967296'];
  const order = orderOf({ id: ++customers }, [{ product_id: 1 }]);
  const line_items = [
    null,
    ...wrong.map((quantity) => ({ product_id: 2, quantity })),
    { product_id: 3, current_quantity: -1, quantity: 1 },
  ];
  const answer = await deliver({ ...order, line_items }, 'wrong');
  t.match(answer, { status: 400, json: { code: 'invalid_request' } });
  const paths = [
    ...wrong.map((_, i) => `/line_items/${i + 1}/quantity`),
    `/line_items/${wrong.length + 1}/current_quantity`,
  ];
  t.same(
    answer.json.issues.map(({ path }: { path: string }) => path),
    paths,
  );
  t.same(await rows(order), []);
  t.equal((await deliver(order, 'wrong')).status, 200);
  t.equal((await rows(order)).length, 1);
});

t.test('each line is a row for analysts, once, also with the setting off', async (t) => {
  await switchTo(app, false);
  const { customerId } = newCustomer();
  const order = orderOf(
    { id: customers },
    [
      { product_id: 11, variant_id: 21, quantity: 2, price: '10.00' },
      { product_id: 12, variant_id: 22, quantity: 1, price: '1.234', total_discount: '0.234' },
      { product_id: null, variant_id: null, price: '5.00', title: 'a gift card' },
    ],
    { currency: 'eur' },
  );
  for (const id of ['', 'rows', 'rows', 'another']) t.equal((await deliver(order, id)).status, 200);
  // A repeat that was taken for late makes the same rows again, and ClickHouse shows rows of one id and time once.
  const once = new Map((await rows(order)).map((row) => [`${row['event_id']} ${row['occurred_at']}`, row]));
  const lines = [...once.values()].map(
    ({ event_id, occurred_at, payload, origin, type, order_id, ...rest }) => rest,
  );
  const { profileId } = await app.shop.exported({ customerId });
  const of = { profile_id: profileId, customer_id: customerId, currency: 'EUR' };
  const second = { product_id: '12', variant_id: '22', quantity: 1, price: '1.23' };
  t.same(lines, [
    { ...of, product_id: '11', variant_id: '21', quantity: 2, price: '10.00', amount: '20.00' },
    { ...of, ...second, discount: '0.23', amount: '1.00' },
    { ...of, quantity: 1, price: '5.00', amount: '5.00' },
  ]);
  await switchTo(app, true);
});

t.test('a test order is recorded as one, and does what any does', async (t) => {
  const who = newCustomer();
  await add(who, ['1', '2']);
  const order = shopifyOrder({ customer: customers }, [PRODUCT], { test: true });
  await deliver(order);
  t.match(await rows(order), [{ test: true, amount: '79.90' }]);
  t.same(await listed(who), []);
  const real = shopifyOrder({ customer: customers }, [PRODUCT]);
  await deliver(real);
  t.notOk('test' in ((await rows(real))[0] ?? {}));
});

const leftOut = async (reason: string) =>
  Number(await app.figure(`orders_left_out_total{reason="${reason}"}`));

t.test('an order that was taken back is left out: 200, nothing is done, and it is counted', async (t) => {
  const cases: [reason: string, rest: object][] = [
    ['cancelled', { cancelled_at: '2026-03-02T10:20:00+01:00', financial_status: 'paid' }],
    ['voided', { financial_status: 'voided' }],
    ['refunded', { financial_status: 'refunded' }],
  ];
  for (const [reason, rest] of cases) {
    const who = newCustomer();
    await add(who, ['1', '2']);
    const session = `left-out-${customers}`;
    const order = shopifyOrder({ customer: customers, session }, [PRODUCT], rest);
    const before = await leftOut(reason);
    t.match(await deliver(order, session), { status: 200, text: '{}' });
    t.same(await rows(order), []);
    t.same(await listed(who), [['1', '2']]);
    t.same(await app.shop.erase({ sessionId: session }), { erased: false }, 'no visitor became known');
    t.equal(await leftOut(reason), before + 1, reason);
    await deliver({ ...order, cancelled_at: null, financial_status: 'paid' }, session);
    t.equal((await rows(order)).length, 1, 'it is not remembered');
  }
  const others = ['partially_refunded', 'authorized', 'pending', null].map((status) => ({
    financial_status: status,
  }));
  for (const rest of [...others, { cancelled_at: '' }]) {
    const order = shopifyOrder({ customer: ++customers }, [PRODUCT], rest);
    await deliver(order);
    t.equal((await rows(order)).length, 1, JSON.stringify(rest));
  }
});

t.test('a webhook of another topic is left out, whatever its body is, if it is authentic', async (t) => {
  for (const topic of ['orders/paid', 'orders/create', '']) {
    const order = shopifyOrder({ customer: ++customers }, [PRODUCT]);
    t.equal((await deliver(order, undefined, { 'x-shopify-topic': topic })).status, 200);
    t.equal((await rows(order)).length, 1, topic);
  }
  const before = await leftOut('topic');
  const order = shopifyOrder({ customer: ++customers }, [PRODUCT]);
  for (const topic of ['orders/updated', 'orders/cancelled', 'refunds/create']) {
    const headers = { 'x-shopify-topic': topic };
    for (const body of [order, { product_id: 5 }, []])
      t.match(await deliver(body, undefined, headers), { status: 200, text: '{}' }, topic);
    const forged = { ...headers, 'x-shopify-hmac-sha256': sign('another body') };
    t.equal((await deliver(order, undefined, forged)).status, 401);
  }
  t.same(await rows(order), []);
  t.equal(await leftOut('topic'), before + 9);
});

t.test('the log says of each other topic once that it is left out', async (t) => {
  const lines: { level: number; topic?: string }[] = [];
  const sink = new Writable({
    write(chunk, _encoding, done) {
      lines.push(JSON.parse(String(chunk)));
      done();
    },
  });
  const env = { HOST: '127.0.0.1', PORT: '0', REDIS_URL: redis.url, KEY_PREFIX: app.prefix, API_KEYS: KEY };
  const config = { ...readConfig(env), REDIS_TIMEOUT_MS: 20_000 };
  const running = await serve(config, pino({ level: 'warn' }, sink));
  t.teardown(() => running.close());
  const post = (topic: string, body: object) =>
    fetch(`http://127.0.0.1:${running.port}${PATH}`, {
      method: 'POST',
      headers: { ...JSON_TYPE, ...TRUSTED, 'x-shopify-topic': topic },
      body: JSON.stringify(body),
    });
  const order = shopifyOrder({ customer: ++customers }, []);
  for (let i = 0; i < 3; i++) {
    for (const topic of ['orders/updated', 'refunds/create', 'orders/paid']) await post(topic, order);
    await post('orders/paid', { ...order, financial_status: 'voided' });
  }
  const topics = () => lines.flatMap(({ topic }) => topic ?? []);
  t.same(topics(), ['orders/updated', 'refunds/create']);
  await Promise.all(Array.from({ length: 120 }, (_, i) => post(`made-up/${i}`, order)));
  t.equal(topics().length, 100, 'a caller that makes topics up does not fill the log');
});

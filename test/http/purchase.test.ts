// POST /webhook/purchase: what was bought, for how much, what leaves the wishlist, and what analysts see, each line once.

import { pino } from 'pino';
import t from 'tap';
import { startApp, TRUSTED } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { gist } from '../harness/stream.js';
import {
  add as addItems,
  deliver as deliverTo,
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
const events = (who: { customerId: string }) => purchasesOf(app, who);
const rows = (order: { id: unknown }) => linesOf(app, order);
const payloads = async (who: { customerId: string }) =>
  (await events(who)).map(({ payload }) => JSON.parse(String(payload)));
let customers = 8_000;
const newCustomer = () => ({ customerId: String(++customers) });
const PRODUCT = { product_id: 1, variant_id: 2 };

t.test(
  'an order removes the bought items from the wishlist, with one event each, and no others',
  async (t) => {
    const who = { customerId: '1' };
    await add(who, ['10', '100'], ['10', null], ['10', '101'], ['11', '110'], ['12', null]);
    const order = orderOf({ id: 1 }, [
      { product_id: 10, variant_id: 100, quantity: 3, price: '12.50' },
      { product_id: 12, variant_id: 120 },
      { product_id: 13, variant_id: 130 },
    ]);
    t.match(await deliver(order), { status: 200, json: { recorded: 3 } });
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
    const texts = (all: readonly object[]) => all.map((one) => JSON.stringify(one)).sort();
    t.same(texts(made.map(gist)), texts(expected));
    const ofVariant = made.find(({ variant_id }) => variant_id === '100');
    t.match(ofVariant, { customer_id: '1', product_id: '10', quantity: 3, price: '12.50' });
  },
);

t.test(
  "ids of an order may be numbers, texts or gids, and are exact beyond a double's precision",
  async (t) => {
    const big = '820982911946154508';
    const who = { customerId: big };
    const neighbours: [string, string | null][] = [
      ['9007199254740992', null],
      ['9007199254740994', null],
    ];
    await add(who, ['9007199254740993', '9223372036854775807'], ['30', '300'], ['31', '310'], ...neighbours);
    await deliver(
      `{"id": ${big}, "currency": "EUR", "total": 0.12345678901234567890, "note": "\\"${big}, ${big}:", "customer": {"id":${big}},
    "line_items": [
      {"product_id": 9007199254740993, "variant_id":9223372036854775807,"quantity":1,"price":"1.00"},
      {"product_id": "30", "variant_id": "300", "price": "2.00"},
      {"product_id": "gid://shopify/Product/31", "variant_id": "gid://shopify/ProductVariant/310", "price": 3}]}`,
    );
    t.same(await listed(who), neighbours.toReversed());
    const made = await payloads(who);
    t.same(new Set(made.map(({ orderId }) => orderId)), new Set([big]));
    const expected = { orderId: big, productId: '30', variantId: '300', quantity: 1, price: '2.00' };
    const one = made.find(({ productId }) => productId === '30');
    t.same(one, expected, 'a line without a quantity is one piece');
  },
);

t.test('order lines of the same item add up to one event', async (t) => {
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

t.test('parts of an order that do not matter may have any value', async (t) => {
  const who = newCustomer();
  await add(who, ['100', '1000']);
  const customer = { id: String(customers), email: 5, default_address: [] };
  const odd = { customer, email: {}, refunds: null, total_price: -0.5e-7 };
  const line = { product_id: 100, variant_id: 1000, quantity: null, price: 12.5, title: 5 };
  const answer = await deliver({ ...orderOf(null, []), ...odd, line_items: [line] });
  t.match(answer, { status: 200, text: '{"recorded":1}' });
  t.same(await listed(who), []);
  t.match(await payloads(who), [{ quantity: 1, price: '12.50' }]);
});

const allocated = (...amounts: unknown[]) => {
  const presentment_money = { amount: '999.99', currency_code: 'USD' };
  const setOf = (amount: unknown) => ({ shop_money: { amount, currency_code: 'EUR' }, presentment_money });
  return { discount_allocations: amounts.map((amount) => ({ amount, amount_set: setOf(amount) })) };
};

t.test("a line's amount is its price times its quantity, less its discounts", async (t) => {
  const cases: [line: object, quantity: number, price: string, discount: string, amount: string][] = [
    [{ price: '79.90' }, 1, '79.90', '0.00', '79.90'],
    [{ price: '10.00', quantity: 3, ...allocated('4.50') }, 3, '10.00', '4.50', '25.50'],
    [{ price: '10.00', quantity: 2, ...allocated('2.00', '0.99') }, 2, '10.00', '2.99', '17.01'],
    [{ price: '10.00', ...allocated('1.00'), total_discount: '7.00' }, 1, '10.00', '1.00', '9.00'],
    [{ price: '10.00', discount_allocations: [], total_discount: '3.00' }, 1, '10.00', '3.00', '7.00'],
    [{ price: '10.00', discount_allocations: undefined, total_discount: 2.5 }, 1, '10.00', '2.50', '7.50'],
    [{ price: 10, quantity: '2', ...allocated(0.5, '0.25') }, 2, '10.00', '0.75', '19.25'],
    [{ price: '10.00', ...allocated('10.00') }, 1, '10.00', '10.00', '0.00'],
    [{ price: '1980', ...allocated('198') }, 1, '1980.00', '198.00', '1782.00'],
    [{ price: '12.345', quantity: 2, ...allocated('0.125') }, 2, '12.35', '0.13', '24.57'],
    [{ price: '10.00', ...allocated('10.01') }, 1, '10.00', '10.01', '0.00'],
    [{ price: '9999999999999999.99' }, 1, '9999999999999999.99', '0.00', '9999999999999999.99'],
    [{ price: '10.00', quantity: 5, current_quantity: 2 }, 2, '10.00', '0.00', '20.00'],
    [{ price: '10.00', quantity: 3, current_quantity: 1, ...allocated('15.00') }, 1, '10.00', '5.00', '5.00'],
    [
      { price: '10.00', quantity: 3, current_quantity: 2, total_discount: '1.00' },
      2,
      '10.00',
      '0.67',
      '19.33',
    ],
    [{ price: '10.00', quantity: '5', current_quantity: '4' }, 4, '10.00', '0.00', '40.00'],
    [{ price: '10.00', quantity: 5, current_quantity: null }, 5, '10.00', '0.00', '50.00'],
  ];
  const lines = cases.map(([line], i) => ({ product_id: 100 + i, ...line }));
  const order = orderOf({ id: ++customers }, lines, { currency: 'EUR', presentment_currency: 'USD' });
  t.equal((await deliver(order)).status, 200);
  const found = await rows(order);
  t.equal(found.length, cases.length);
  for (const [i, [line, quantity, price, discount, amount]] of cases.entries()) {
    const row = found.find(({ productId }) => productId === String(100 + i)) ?? {};
    t.match(row, { quantity, price, discount, amount, currency: 'EUR' }, JSON.stringify(line));
  }
});

t.test('a line with a quantity of 0 buys nothing, and removes no item', async (t) => {
  const who = newCustomer();
  await add(who, ['1', '1'], ['2', '2'], ['3', '3']);
  const order = orderOf({ id: customers }, [
    { product_id: 1, variant_id: 1, quantity: 0 },
    { product_id: 2, variant_id: 2, quantity: 3, current_quantity: 0 },
    { product_id: 3, variant_id: 3, quantity: 0, current_quantity: '1' },
    { product_id: 4, variant_id: 4, quantity: '0' },
  ]);
  t.match(await deliver(order), { status: 200, text: '{"recorded":1}' });
  const stated = (await rows(order)).map(({ quantity }) => quantity);
  t.same(stated, [0, 0, 1, 0]);
  t.same(await listed(who), [
    ['2', '2'],
    ['1', '1'],
  ]);
  const nothing = orderOf({ id: customers }, [{ product_id: 1, quantity: 0 }]);
  t.match(await deliver(nothing), { json: { recorded: 0, reason: 'nothing_left' } });
});

/** A path, and a change that makes a right order wrong there. */
const WRONG: readonly [path: string, change: (order: Record<string, unknown>) => unknown][] = [
  ...[1.5, -1, 'two', ' 2', '1.5', '1e3', true, {}, 2 ** 32, '4294967296'].map((quantity) =>
    ofLine('quantity', quantity),
  ),
  ofLine('current_quantity', -1),
  ...['x', '5,00', '', '-1.00', -1, null, undefined, {}, 1e16, '9999999999999999.995'].map((price) =>
    ofLine('price', price),
  ),
  ['/line_items/0/price', withLine({ price: '9999999999999999.99', current_quantity: 4_294_967_295 })],
  [
    '/line_items/0/discount_allocations',
    withLine({ discount_allocations: Array(2).fill({ amount: '9999999999999999' }) }),
  ],
  ...[null, undefined, '', {}, true, 1.5, 0, 'gid://shopify/Order/1'].map((id) => ofLine('product_id', id)),
  ofLine('variant_id', {}),
  ofLine('total_discount', 'x'),
  ...['EURO', 'EU', '5', 5, '', null, undefined].map((currency) => ofOrder('currency', currency)),
  ofOrder('test', 'true'),
  ofOrder('financial_status', 'payed'),
  ...['x', 5, [], '2026-13-01T00:00:00Z', 'yesterday'].map((time) => ofOrder('updated_at', time)),
  ofOrder('processed_at', 'x'),
  ofOrder('created_at', 'x'),
  ofOrder('customer', 7),
  ofOrder('note_attributes', 'none'),
  ofOrder('line_items', {}),
  ['/customer/id', (order) => ({ ...order, customer: { id: 'guest' } })],
  ['/line_items/0/discount_allocations/0/amount', withLine({ discount_allocations: [{ amount: 'x' }] })],
  ['/line_items/0', (order) => ({ ...order, line_items: [null] })],
];

function withLine(line: object) {
  return (order: Record<string, unknown>) => ({
    ...order,
    line_items: [{ ...Object(order['line_items'])[0], ...line }],
  });
}
function ofLine(field: string, value: unknown): (typeof WRONG)[number] {
  return [`/line_items/0/${field}`, withLine({ [field]: value })];
}
function ofOrder(field: string, value: unknown): (typeof WRONG)[number] {
  return [`/${field}`, (order) => ({ ...order, [field]: value })];
}
const rightOrder = () =>
  shopifyOrder({ customer: ++customers, session: `wrong-${customers}` }, [PRODUCT]) as Record<
    string,
    unknown
  > & { id: number };
const ofServer = (body: object) => app.post(PATH, body, TRUSTED);

t.test(
  "a server's order with wrong fields is 400 with an issue for each, and can be sent again",
  async (t) => {
    for (const [path, change] of WRONG) {
      const answer = await ofServer(change(rightOrder()) as object);
      t.match(answer, { status: 400, json: { code: 'invalid_request', issues: [{ path }] } }, path);
      t.equal(answer.json.issues?.length, 1, path);
    }
    const order = rightOrder();
    const discounted = await ofServer(withLine({ total_discount: '99.00' })(order));
    t.match(discounted.json.issues, [{ path: '/line_items/0/total_discount' }], 'a discount above the price');
    const all = { ...order, currency: 5, test: 1, line_items: [{ price: 'x' }, { product_id: 1 }] };
    const found = (await ofServer(all)).json.issues.map(({ path }: { path: string }) => path);
    const lines = ['/line_items/0/price', '/line_items/0/product_id', '/line_items/1/price'];
    t.same(found.sort(), ['/currency', ...lines, '/test']);
    t.same(await rows(order), []);
    t.match(await ofServer(order), { status: 200, text: '{"recorded":1}' });
  },
);

t.test('an order without a currency is recorded in SHOP_CURRENCY', async (t) => {
  const ofShop = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET, SHOP_CURRENCY: 'chf' } });
  for (const currency of [undefined, null, ' ', 'usd']) {
    const order = { ...rightOrder(), currency };
    t.match((await deliverTo(ofShop, order)).json, { recorded: 1, issues: undefined });
    t.match(await linesOf(ofShop, order), [{ currency: currency === 'usd' ? 'USD' : 'CHF' }]);
    t.match(
      await ofShop.post(PATH, { ...order, currency: 5 }, TRUSTED),
      { status: 400 },
      'a wrong one is wrong',
    );
  }
});

t.test('an order line is numbered by its position, even if lines before it are invalid', async (t) => {
  const order = rightOrder();
  const lines = ['x', '1.00', '2.00'].map((price, i) => ({ product_id: i + 1, price }));
  t.match((await deliver({ ...order, line_items: lines })).json, { recorded: 2 });
  t.same(
    (await rows(order)).map(({ line }) => line),
    ['#1', '#2'],
  );
  const answer = await ofServer({
    ...order,
    line_items: [...lines, { ...PRODUCT, price: 1, total_discount: 2 }],
  });
  const paths = answer.json.issues.map(({ path }: { path: string }) => path);
  t.same(paths, ['/line_items/0/price', '/line_items/3/total_discount']);
});

t.test('a cancellation withdraws an order, even if none of its lines can be read', async (t) => {
  const order = rightOrder();
  await deliver(order);
  const cancelled = {
    ...order,
    cancelled_at: order['created_at'],
    line_items: [{ product_id: null, price: 1 }],
  };
  t.match((await deliver(cancelled)).json, { recorded: 0, reason: 'cancelled' });
  t.same(
    (await rows(order)).map(({ type }) => type),
    ['purchase', 'order'],
  );
});

t.test(
  'an order leaves items that were saved after it was placed, even if it is delivered much later',
  async (t) => {
    const who = newCustomer();
    await add(who, ['1', '2']);
    await app.shop.visit(who, 'red-shoe');
    const order = (created_at: Date) =>
      shopifyOrder({ customer: customers }, [PRODUCT], { created_at: created_at.toISOString() });
    const [item] = await app.shop.items(who);
    const wishedAt = Date.parse(String(item?.addedAt));
    t.match((await deliver(order(new Date(wishedAt - 1_000)))).json, { recorded: 1 });
    t.same([await listed(who), await events(who)], [[['1', '2']], []]);
    await deliver(order(new Date(Math.floor(wishedAt / 1_000) * 1_000)));
    t.same(await listed(who), [], "Shopify's times are whole seconds");
  },
);

t.test(
  'wrong fields of a signed order are named and counted, and its right lines are recorded',
  async (t) => {
    const faults = async (field: string) =>
      Number((await app.figure(`order_faults_total{field="${field}"}`)) ?? 0);
    for (const [path, change] of WRONG) {
      const field = path.replace(/\/0/g, '/*');
      const before = await faults(field);
      const order = change(rightOrder()) as { id: number; line_items: object[] };
      const isLine = path.startsWith('/line_items/0');
      if (isLine) order.line_items.push({ product_id: 3, price: '1.00' });
      const answer = await deliver(order);
      const isLeftOut = ['/currency', '/test', '/financial_status', '/line_items'].includes(path);
      const outcome = isLeftOut ? { recorded: 0, reason: 'invalid' } : { recorded: 1, reason: undefined };
      t.match(answer, { status: 200, json: { ...outcome, issues: [{ path }] } }, path);
      t.equal((await rows(order)).length, isLeftOut ? 0 : 1, path);
      t.equal(await faults(field), before + 1, `${field} is counted`);
    }
    const before = await leftOut('invalid');
    for (const body of [[], 5, {}, { ...rightOrder(), line_items: [null] }])
      t.match(await deliver(JSON.stringify(body)), { status: 200, json: { recorded: 0, reason: 'invalid' } });
    t.equal(await leftOut('invalid'), before + 4);
  },
);

t.test(
  'visits of a product start again at 0 if its item was bought, and those of another product stay',
  async (t) => {
    const who = newCustomer();
    const visits = (productHandle: string) => app.shop.count(who, productHandle);
    await app.shop.add(who, { productId: '1', variantId: '2', productHandle: 'bought' });
    await app.shop.add(who, { productId: '5', variantId: null, productHandle: 'kept' });
    for (const handle of ['bought', 'kept']) await app.shop.visit(who, handle);
    const order = shopifyOrder({ customer: customers }, [PRODUCT]);
    await deliver(order);
    t.same([await visits('bought'), await visits('kept')], [0, 1]);
    await app.shop.visit(who, 'bought');
    await deliver(order);
    t.equal(await visits('bought'), 1, 'repeated: no item left');
  },
);

t.test(
  'a test order removes nothing from the wishlist and makes no event, and the real one does',
  async (t) => {
    const who = newCustomer();
    await add(who, ['1', '2']);
    const order = shopifyOrder({ customer: customers }, [PRODUCT]);
    t.match((await deliver({ ...order, test: true })).json, { recorded: 1 });
    t.same([await listed(who), await events(who)], [[['1', '2']], []]);
    await deliver(order);
    t.same([await listed(who), (await events(who)).length], [[], 1]);
  },
);

t.test("an order removes bought items from the customer's list and from the session's", async (t) => {
  const [customer, session] = [newCustomer(), { sessionId: `buys-${customers}` }];
  for (const who of [customer, session]) await add(who, ['1', '2']);
  await deliver(shopifyOrder({ customer: customers, session: session.sessionId }, [PRODUCT]));
  t.same([await listed(customer), await listed(session)], [[], []]);
});

t.test(
  "an order of a guest's session that names a customer leads its address to that customer",
  async (t) => {
    const [customer, session] = [newCustomer(), { sessionId: `mails-${customers}` }];
    const email = `buyer-${customers}@shop.example`;
    await app.shop.visit(session);
    await deliver(shopifyOrder({ customer: customers, session: session.sessionId, email }, [PRODUCT]));
    t.match(await app.shop.exported({ email }), { identities: { customerIds: [customer.customerId] } });
  },
);

t.test('an order dated in the future is recorded with the present time', async (t) => {
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  for (const times of [{ processed_at: inAnHour }, { processed_at: null, created_at: inAnHour }]) {
    const order = { ...rightOrder(), ...times };
    t.match((await deliver(order)).json, { recorded: 1 });
    const [row] = await rows(order);
    t.ok(Date.parse(String(row?.['occurredAt'])) <= Date.now(), `${row?.['occurredAt']}`);
  }
});

const leftOut = async (reason: string) =>
  Number(await app.figure(`orders_left_out_total{reason="${reason}"}`));

t.test(
  'an order that records nothing is answered with the reason, is counted, and removes no item',
  async (t) => {
    const cases: [reason: string, rest: object][] = [
      ['cancelled', { cancelled_at: '2026-03-02T10:20:00+01:00' }],
      ['voided', { financial_status: 'voided' }],
      ['refunded', { financial_status: 'refunded' }],
      ...['pending', 'authorized', 'expired', 'unpaid'].map((financial_status): [string, object] => [
        'unpaid',
        { financial_status },
      ]),
      ['no_visitor', { customer: null }],
      ['no_visitor', { customer: null, note_attributes: [{ name: 'wishlist_session_id', value: 'guest' }] }],
    ];
    for (const [reason, rest] of cases) {
      const who = newCustomer();
      await add(who, ['1', '2']);
      const order = shopifyOrder({ customer: customers }, [PRODUCT], rest);
      const before = await leftOut(reason);
      t.match(await deliver(order), { status: 200, text: `{"recorded":0,"reason":"${reason}"}` }, reason);
      t.same(await listed(who), [['1', '2']]);
      t.equal(await leftOut(reason), before + 1, reason);
      const stated = (await rows(order)).map(({ quantity }) => quantity);
      t.same(stated, ['unpaid', 'no_visitor'].includes(reason) ? [] : [0], reason);
    }
  },
);

t.test(
  'an order without a financial status counts as paid if a server or orders/paid sends it',
  async (t) => {
    const order = () => shopifyOrder({ customer: ++customers }, [PRODUCT], { financial_status: null });
    t.match(await ofServer(order()), { json: { recorded: 1 } });
    t.match(await deliver(order()), { json: { recorded: 1 } });
    const created = await deliver(order(), '', { 'x-shopify-topic': 'orders/create' });
    t.match(created, { json: { recorded: 0, reason: 'unpaid' } });
  },
);

t.test('orders of four topics are recorded, and any other authentic topic is left out', async (t) => {
  for (const topic of ['paid', 'create', 'updated', 'cancelled']) {
    const order = shopifyOrder({ customer: ++customers }, [PRODUCT]);
    const headers = { 'x-shopify-topic': `orders/${topic}` };
    t.match(await deliver(order, undefined, headers), { status: 200, json: { recorded: 1 } }, topic);
  }
  const before = await leftOut('topic');
  const order = shopifyOrder({ customer: ++customers }, [PRODUCT]);
  for (const topic of ['orders/fulfilled', 'refunds/create', 'orders/edited']) {
    const headers = { 'x-shopify-topic': topic };
    for (const body of [order, { order_edit: { order_id: order.id } }, []])
      t.equal((await deliver(body, undefined, headers)).text, '{"recorded":0,"reason":"topic"}', topic);
    const forged = { ...headers, 'x-shopify-hmac-sha256': sign('another body') };
    t.equal((await deliver(order, undefined, forged)).status, 401);
  }
  t.same(await rows(order), []);
  t.equal(await leftOut('topic'), before + 9);
});

t.test('the log has each reason and each topic of left-out orders once, topics at info', async (t) => {
  const lines: { topic?: string; reason?: string; level?: number }[] = [];
  const app = await startApp(t, redis, { onLog: (line) => lines.push(line) });
  const post = (topic: string, body: object) =>
    app.post(PATH, body, { ...TRUSTED, 'x-shopify-topic': topic });
  const order = shopifyOrder({ customer: ++customers }, []);
  for (let i = 0; i < 3; i++) {
    for (const topic of ['orders/fulfilled', 'orders/edited', 'orders/paid']) await post(topic, order);
    await post('orders/paid', { ...order, financial_status: 'voided' });
  }
  const topics = () => lines.flatMap(({ topic }) => topic ?? []);
  t.same(topics(), ['orders/fulfilled', 'orders/edited']);
  t.notOk(lines.some(({ topic, level }) => topic !== undefined && level !== pino.levels.values['info']));
  const reasons = lines.flatMap(({ reason }) => reason ?? []);
  t.same(reasons, ['nothing_left', 'voided'], 'each reason once');
  await Promise.all(Array.from({ length: 120 }, (_, i) => post(`made-up/${i}`, order)));
  t.equal(topics().length, 100, 'a caller that makes topics up does not fill the log');
});

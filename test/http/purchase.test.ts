// POST /webhook/purchase: what leaves the wishlist, with one event for each item; and what analysts see, each line of each
// order that names a visitor, once, whatever the setting.

import t from 'tap';
import { startApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { gist, rowsOf } from '../harness/stream.js';
import { add, deliver, listed, orderOf, purchasesOf, SECRET, switchTo } from './orders.js';

t.test('purchases', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  await switchTo(app, true);
  const purchases = (who: { sessionId?: string; customerId?: string }, of = app) =>
    purchasesOf(redis, of, who);
  /**
   * Of an order, without what every row has. A repeat that was taken for late makes the same rows again, and ClickHouse
   * shows rows of one id and time once.
   */
  const linesOf = async (order: { id: number }) => {
    const rows = (await rowsOf(redis, app)).filter(
      ({ origin, order_id }) => origin === 'order' && order_id === String(order.id),
    );
    const once = new Map(rows.map((row) => [`${row['event_id']} ${row['occurred_at']}`, row]));
    return [...once.values()].map(
      ({ event_id, occurred_at, payload, origin, type, order_id, ...rest }) => rest,
    );
  };

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
        { orderId: big, productId: '30', variantId: '300', quantity: 1, price: null },
        'a line without a quantity is one piece',
      );
    },
  );

  t.test('ids of 16 digits are exact where none is longer', async (t) => {
    const who = { customerId: '9007199254740993' };
    await add(app, who, ['9007199254740993', '9007199254740995'], ['9007199254740992', '9007199254740996']);
    const order = (id: string) =>
      `{"id":${id},"customer":{"id":9007199254740993},
        "line_items":[{"product_id":9007199254740993,"variant_id":9007199254740995,"quantity":1,"price":"1.00"}]}`;
    t.equal((await deliver(app, order('9007199254740993'))).status, 200);
    t.same(await listed(app, who), [['9007199254740992', '9007199254740996']]);
    const [event] = await purchases(who);
    t.match(JSON.parse(String(event?.['payload'])), {
      orderId: '9007199254740993',
      productId: '9007199254740993',
      variantId: '9007199254740995',
    });
    await add(app, who, ['9007199254740993', '9007199254740995']);
    t.equal((await deliver(app, order('9007199254740992'))).status, 200, 'the order before is another one');
    t.same(await listed(app, who), [['9007199254740992', '9007199254740996']]);
  });

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

  t.test('an order of thousands of lines against a wishlist of hundreds is one answer', async (t) => {
    const who = { customerId: '98' };
    for (let from = 0; from < 500; from += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, i) => add(app, who, [String(98_000 + from + i), '1'])),
      );
    }
    const lines = Array.from({ length: 8_000 }, (_, i) => ({ product_id: 98_000 + i, variant_id: 1 }));
    t.equal((await deliver(app, orderOf({ id: 98 }, lines))).status, 200);
    t.same(await listed(app, who), []);
    t.equal((await purchases(who)).length, 500);
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
      { quantity: null, price: 12.5, total_discount: {} },
      { quantity: '2', current_quantity: null, price: {}, discount_allocations: 'none' },
      { quantity: 3, price: 'x'.repeat(40), discount_allocations: [null, 5, {}], total_discount: [] },
    ]) {
      await add(app, who, ['100', '1000']);
      const line_items = [null, 1, 'x', [], { product_id: 100, variant_id: 1000, ...line }];
      t.equal((await deliver(app, { ...orderOf(null, []), ...odd, line_items })).status, 200);
      t.same(await listed(app, who), []);
    }
    const payloads = (await purchases(who)).map(({ payload }) => JSON.parse(String(payload)));
    t.same(
      payloads.map(({ quantity, price }) => [quantity, price]),
      [
        [1, null],
        [1, '12.50'],
        [2, null],
        [3, null],
      ],
    );
  });

  for (const isOn of [false, true]) {
    t.test(
      `with the setting ${isOn ? 'on' : 'off'}: on the wishlist or not, known or not, once`,
      async (t) => {
        await switchTo(app, isOn);
        const customerId = isOn ? '501' : '500';
        await add(app, { customerId }, ['11', '21'], ['11', null]);
        const order = orderOf(
          { id: Number(customerId) },
          [
            { product_id: 11, variant_id: 21, quantity: 2, price: '10.00' },
            { product_id: 12, variant_id: 22, quantity: 1, price: '1.234', total_discount: '0.234' },
            { product_id: 13, variant_id: 23, quantity: 0, price: '9.00' },
            { product_id: null, variant_id: null, price: '5.00', title: 'a gift card' },
          ],
          { currency: 'eur' },
        );
        for (const id of ['', `rows-${isOn}`, `rows-${isOn}`, 'another'])
          t.equal((await deliver(app, order, `${id}`)).status, 200);
        const lines = await linesOf(order);
        const { profile_id } = lines[0] ?? {};
        const of = { profile_id, customer_id: customerId, currency: 'EUR' };
        t.same(lines, [
          { ...of, product_id: '11', variant_id: '21', quantity: 2, price: '10.00', amount: '20.00' },
          {
            ...of,
            ...{
              product_id: '12',
              variant_id: '22',
              quantity: 1,
              price: '1.23',
              discount: '0.23',
              amount: '1.00',
            },
          },
          { ...of, quantity: 1, price: '5.00', amount: '5.00' },
        ]);

        const sessionId = `nobody-${isOn}`;
        const note_attributes = [{ name: 'wishlist_session_id', value: sessionId }];
        const guest = orderOf(null, [{ product_id: 11 }], {
          note_attributes,
          currency: 'JPY',
          id: 70 + Number(isOn),
        });
        await deliver(app, guest);
        const [line] = await linesOf(guest);
        t.match(line, { session_id: sessionId, product_id: '11', currency: 'JPY', price: '79.90' });
        const visit = await app.post('/product/visit', { identity: { sessionId }, productHandle: 'x' });
        t.equal(line?.profile_id, visit.json.profileId, 'under the profile that the visitor gets');
      },
    );
  }

  t.test('500 lines; one that matches a variant and its variant-less item is one', async (t) => {
    await switchTo(app, true);
    await add(app, { customerId: '502' }, ['1', '1'], ['1', null]);
    const lines = Array.from({ length: 500 }, (_, i) => ({
      product_id: 1 + i,
      variant_id: 1 + i,
      price: '0.10',
    }));
    const order = orderOf({ id: 502 }, lines);
    await Promise.all(Array.from({ length: 5 }, () => deliver(app, order)));
    const told = await linesOf(order);
    t.same(
      told.map(({ product_id }) => Number(product_id)),
      lines.map(({ product_id }) => product_id),
    );
  });

  t.test('an order that was recorded in part is completed, and its rows are the same', async (t) => {
    await switchTo(app, false);
    const full = await startApp(t, redis, {
      prefix: app.prefix,
      env: { SHOPIFY_SECRET: SECRET, STREAM_HIGH_WATER: '1' },
    });
    const order = orderOf({ id: 503 }, [{ product_id: 1 }, { product_id: 2 }]);
    t.equal((await deliver(full, order)).status, 503, 'no room');
    t.same(await linesOf(order), []);
    t.equal((await deliver(app, order)).status, 200);
    t.equal((await linesOf(order)).length, 2);
  });

  t.test('orders without a visitor are told of no visitor', async (t) => {
    const before = (await rowsOf(redis, app)).length;
    for (const customer of [null, { id: 0 }, 'x']) {
      t.equal((await deliver(app, orderOf(customer, [{ product_id: 1 }]))).status, 200);
    }
    t.equal((await rowsOf(redis, app)).length, before);
  });
});

function byText(a: object, b: object): number {
  return JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
}

// POST /webhook/purchase: what was bought, for how much, and which orders are left out.

import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import { serve } from '../../src/app/serve.js';
import { readConfig } from '../../src/config.js';
import { KEY, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';
import {
  add,
  deliver,
  JSON_TYPE,
  listed,
  orderOf,
  PATH,
  SECRET,
  shopifyOrder,
  sign,
  switchTo,
} from './orders.js';

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

t.test('amounts', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  const linesOf = async (order: { id: number }) =>
    (await rowsOf(redis, app)).filter(
      ({ origin, order_id }) => origin === 'order' && order_id === String(order.id),
    );
  const leftOut = async (of: TestApp, reason: string) =>
    Number(
      new RegExp(`^wishmeter_orders_left_out_total\\{reason="${reason}"\\} (\\d+)$`, 'm').exec(
        await of.figures(),
      )?.[1],
    );

  let customers = 8_000;

  t.test('a line is paid with its price times its quantity, less its discounts', async (t) => {
    type Row = [
      line: object,
      quantity: number,
      price: string | undefined,
      discount: string | undefined,
      amount: string | undefined,
    ];
    const cases: Row[] = [
      [{ price: '79.90' }, 1, '79.90', undefined, '79.90'],
      [{ price: '10.00', quantity: 3 }, 3, '10.00', undefined, '30.00'],
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
    const order = orderOf(
      { id: ++customers },
      cases.map(([line], i) => ({ product_id: 100 + i, ...line })),
      { currency: 'EUR' },
    );
    t.equal((await deliver(app, order)).status, 200);
    const rows = await linesOf(order);
    t.equal(rows.length, cases.length);
    for (const [i, [line, quantity, price, discount, amount]] of cases.entries()) {
      const row = rows.find(({ product_id }) => product_id === String(100 + i)) ?? {};
      t.same(
        [row['quantity'], row['price'], row['discount'], row['amount'], row['currency']],
        [quantity, price, discount, amount, 'EUR'],
        JSON.stringify(line),
      );
    }
  });

  t.test('it is the currency of the shop, whatever the buyer paid in', async (t) => {
    const order = shopifyOrder({ customer: ++customers }, [{ product_id: 1, variant_id: 2 }], {
      currency: 'EUR',
      presentment_currency: 'USD',
    });
    await deliver(app, order);
    t.match(await linesOf(order), [{ currency: 'EUR', price: '79.90', amount: '79.90' }]);
  });

  t.test(
    'of a quantity of 0 nothing was bought: it is no line, and takes nothing from the wishlist',
    async (t) => {
      await switchTo(app, true);
      const who = { customerId: String(++customers) };
      await add(app, who, ['1', '1'], ['2', '2'], ['3', '3']);
      const order = orderOf({ id: customers }, [
        { product_id: 1, variant_id: 1, quantity: 0 },
        { product_id: 2, variant_id: 2, quantity: 3, current_quantity: 0 },
        { product_id: 3, variant_id: 3, quantity: 0, current_quantity: '1' },
        { product_id: 4, variant_id: 4, quantity: '0' },
      ]);
      await deliver(app, order);
      t.match(await linesOf(order), [{ product_id: '3', quantity: 1 }]);
      t.equal((await linesOf(order)).length, 1);
      t.same(await listed(app, who), [
        ['2', '2'],
        ['1', '1'],
      ]);
    },
  );

  t.test(
    'what is no whole number of 0 or more is 400 that names each, and the order can be sent again',
    async (t) => {
      const wrong = [
        1.5,
        -1,
        'two',
        '',
        ' 2',
        '1.5',
        '-1',
        '1e3',
        true,
        [],
        {},
        2 ** 32,
        1e300,
        '4294967296',
        '12345678901',
      ];
      for (const quantity of wrong) {
        const order = orderOf({ id: ++customers }, [{ product_id: 1 }, { product_id: 2, quantity }]);
        const answer = await deliver(app, order, `wrong-${customers}`);
        t.match(
          answer,
          {
            status: 400,
            json: {
              code: 'invalid_request',
              issues: [{ path: '/line_items/1/quantity', message: /^must be a whole number/ }],
            },
          },
          JSON.stringify(quantity),
        );
        t.same(await linesOf(order), []);
        const right = { ...order, line_items: order.line_items.map((line) => ({ ...line, quantity: 2 })) };
        t.equal((await deliver(app, right, `wrong-${customers}`)).status, 200);
        t.equal((await linesOf(order)).length, 2);
      }
      const order = orderOf({ id: ++customers }, [
        null as never,
        { current_quantity: -1, quantity: 1 },
        { quantity: 'x' },
      ]);
      t.same(
        (
          await deliver(app, {
            ...order,
            line_items: [null, { current_quantity: -1, quantity: 1 }, { quantity: 'x' }],
          })
        ).json.issues.map(({ path }: { path: string }) => path),
        ['/line_items/1/current_quantity', '/line_items/2/quantity'],
      );
    },
  );

  t.test('a test order is recorded as one, and does what any does', async (t) => {
    await switchTo(app, true);
    const who = { customerId: String(++customers) };
    await add(app, who, ['1', '2']);
    const order = shopifyOrder({ customer: customers }, [{ product_id: 1, variant_id: 2 }], { test: true });
    await deliver(app, order);
    t.match(await linesOf(order), [{ test: true, amount: '79.90' }]);
    t.same(await listed(app, who), []);
    const real = shopifyOrder({ customer: customers }, [{ product_id: 1, variant_id: 2 }]);
    await deliver(app, real);
    t.notOk('test' in ((await linesOf(real))[0] ?? {}));
  });

  t.test('an order that was taken back is left out: 200, nothing is done, and it is counted', async (t) => {
    await switchTo(app, true);
    const cases: [rest: object, reason: string][] = [
      [
        { cancelled_at: '2026-03-02T10:20:00+01:00', cancel_reason: 'customer', financial_status: 'paid' },
        'cancelled',
      ],
      [{ financial_status: 'voided' }, 'voided'],
      [{ financial_status: 'refunded' }, 'refunded'],
    ];
    for (const [rest, reason] of cases) {
      const who = { customerId: String(++customers) };
      await add(app, who, ['1', '2']);
      const order = shopifyOrder(
        { customer: customers, session: `left-out-${customers}` },
        [{ product_id: 1, variant_id: 2 }],
        rest,
      );
      const before = await leftOut(app, reason);
      t.match(await deliver(app, order, `left-out-${customers}`), { status: 200, text: '{}' });
      t.same(await linesOf(order), []);
      t.same(await listed(app, who), [['1', '2']]);
      t.equal(
        (await app.del('/profile', { identity: { sessionId: `left-out-${customers}` } }, TRUSTED)).json
          .erased,
        false,
      );
      t.equal(await leftOut(app, reason), before + 1, reason);
      const { cancelled_at: _, ...again } = { ...order, financial_status: 'paid' };
      await deliver(app, again, `left-out-${customers}`);
      t.equal((await linesOf(order)).length, 1, 'it is not remembered');
    }
    for (const financial_status of ['paid', 'partially_refunded', 'authorized', 'pending', null]) {
      const order = shopifyOrder({ customer: ++customers }, [{ product_id: 1, variant_id: 2 }], {
        financial_status,
      });
      await deliver(app, order);
      t.equal((await linesOf(order)).length, 1, String(financial_status));
    }
  });

  t.test(
    'a webhook of another topic is left out, whatever its body is; first it must be authentic',
    async (t) => {
      for (const topic of ['orders/paid', 'orders/create', '']) {
        const order = shopifyOrder({ customer: ++customers }, [{ product_id: 1, variant_id: 2 }]);
        t.equal((await deliver(app, order, undefined, { 'x-shopify-topic': topic })).status, 200);
        t.equal((await linesOf(order)).length, 1, topic);
      }
      const before = await leftOut(app, 'topic');
      const order = shopifyOrder({ customer: ++customers }, [{ product_id: 1, variant_id: 2 }]);
      const others = [
        'orders/updated',
        'orders/cancelled',
        'orders/edited',
        'refunds/create',
        'products/update',
        'x',
      ];
      for (const topic of others) {
        const headers = { 'x-shopify-topic': topic };
        for (const body of [order, { product_id: 5 }, []])
          t.match(await deliver(app, body, undefined, headers), { status: 200, text: '{}' }, topic);
        const body = JSON.stringify(order);
        const wrong = {
          ...JSON_TYPE,
          ...headers,
          'x-shopify-hmac-sha256': sign(body, 'hush-hush-hush-hush!'),
        };
        t.equal((await app.post(PATH, body, wrong)).status, 401);
      }
      t.same(await linesOf(order), []);
      t.equal(await leftOut(app, 'topic'), before + others.length * 3);
    },
  );

  t.test('the log says of each other topic once that it is left out', async (t) => {
    const lines: { level: number; topic?: string }[] = [];
    const sink = new Writable({
      write(chunk, _encoding, done) {
        lines.push(JSON.parse(String(chunk)));
        done();
      },
    });
    const env = { HOST: '127.0.0.1', PORT: '0', REDIS_URL: redis.url, KEY_PREFIX: app.prefix, API_KEYS: KEY };
    const running = await serve(
      { ...readConfig(env), REDIS_TIMEOUT_MS: 20_000 },
      pino({ level: 'warn' }, sink),
    );
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
});

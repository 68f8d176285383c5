// POST /webhook/purchase, as analysts see it: each line of each order that names a visitor, once, whatever the setting.

import t from 'tap';
import { eachRedis, startApp } from '../harness/app.js';
import { rowsOf } from '../harness/stream.js';
import { add, deliver, orderOf, SECRET, switchTo } from './orders.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
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

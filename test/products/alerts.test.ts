// Which changes of a product its wishers are told of: each price drop and each restock once.

import t from 'tap';
import { eachRedis, startApp } from '../harness/app.js';
import { ALERTS, alertsOf, put, putAt } from './fixtures.js';

/** A product without variants, wished at 80.00. */
const PRICES: readonly {
  readonly name: string;
  readonly puts: readonly (readonly [price: string, drops: number])[];
}[] = [
  {
    name: 'a fall is told once',
    puts: [
      ['70.00', 1],
      ['70.00', 0],
    ],
  },
  {
    name: 'each further fall is told',
    puts: [
      ['70.00', 1],
      ['60.00', 1],
      ['59.99', 1],
    ],
  },
  {
    name: 'a rise that stays below is not told',
    puts: [
      ['60.00', 1],
      ['65.00', 0],
      ['64.00', 1],
    ],
  },
  {
    name: 'a fall after a rise is told',
    puts: [
      ['60.00', 1],
      ['65.00', 0],
      ['90.00', 0],
      ['70.00', 1],
    ],
  },
  {
    name: 'a fall that stays above the price it was wished at is not',
    puts: [
      ['99.00', 0],
      ['85.00', 0],
      ['80.00', 0],
      ['79.99', 1],
    ],
  },
  {
    name: 'figures count, and not texts',
    puts: [
      ['100.00', 0],
      ['9.00', 1],
      ['10.00', 0],
      ['009.50', 1],
    ],
  },
];

/** Wished in stock, or not. */
const STOCK: readonly {
  readonly name: string;
  readonly wished: boolean;
  readonly puts: readonly (readonly [available: boolean, told: number])[];
}[] = [
  {
    name: 'a restock is told once',
    wished: false,
    puts: [
      [false, 0],
      [true, 1],
      [true, 0],
    ],
  },
  {
    name: 'each restock is told',
    wished: true,
    puts: [
      [true, 0],
      [false, 0],
      [true, 1],
      [false, 0],
      [true, 1],
    ],
  },
  { name: 'a restock is told where the sell-out was not seen', wished: false, puts: [[true, 1]] },
];

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: ALERTS });
  let next = 1;
  const wish = async (changes: object = {}) => {
    const productId = String(next++);
    const sessionId = `s-${productId}`;
    await app.shop.add({ sessionId }, { productId, price: '80.00', ...changes });
    return { productId, sessionId };
  };

  for (const { name, puts } of PRICES)
    t.test(name, async (t) => {
      const { productId } = await wish();
      for (const [price, drops] of puts) t.same(await putAt(app, productId, price), [drops, 0], price);
    });

  for (const { name, wished, puts } of STOCK)
    t.test(name, async (t) => {
      const { productId } = await wish({ inventoryAvailable: wished });
      for (const [available, told] of puts)
        t.same(await putAt(app, productId, '80.00', available), [0, told], String(available));
    });

  t.test('a fall and a restock at once are two', async (t) => {
    const { productId } = await wish({ inventoryAvailable: false });
    t.same(await putAt(app, productId, '70.00'), [1, 1]);
    t.same(await putAt(app, productId, '70.00'), [0, 0]);
  });

  t.test('adding the item again is a new wish, at its own price and stock', async (t) => {
    const { productId, sessionId } = await wish();
    t.same(await putAt(app, productId, '70.00', false), [1, 0]);
    await app.shop.add({ sessionId }, { productId, price: '70.00' });
    t.same(await putAt(app, productId, '70.00', true), [0, 0]);
    t.same(await putAt(app, productId, '69.00', true), [1, 0]);
    await app.shop.add({ sessionId }, { productId, price: '80.00' });
    t.same(await putAt(app, productId, '69.00', true), [1, 0]);
    const ids = (await alertsOf(redis, app))
      .filter(({ product_id }) => product_id === productId)
      .map(({ event_id }) => event_id);
    t.equal(new Set(ids).size, 3, 'under ids of their own');
  });

  t.test('prices of two currencies are not compared; stock is', async (t) => {
    const { productId } = await wish({ currencyCode: 'EUR', inventoryAvailable: false });
    t.same(await put(app, productId, { price: '70.00', currencyCode: 'USD' }), [0, 1]);
    t.same(await put(app, productId, { price: '70.00', currencyCode: 'eur' }), [1, 0]);
    t.same(await put(app, productId, { price: '60.00' }), [1, 0], "one that names none has the shop's");
  });

  t.test('an item follows its variant, and one without a variant the product', async (t) => {
    const { productId } = await wish({ variantId: '11' });
    const other = { sessionId: 's-other' };
    await app.shop.add(other, { productId, price: '80.00', inventoryAvailable: false });
    const [low, high] = [
      { variantId: '12', price: '75.00' },
      { variantId: 11, price: '85.00', inventoryAvailable: false },
    ];
    t.same(await put(app, productId, high, low), [1, 1], 'the lowest price, and any stock');
    t.same(await put(app, productId, { ...high, price: '79.00' }, low), [1, 0], 'the variant');
    t.same(await put(app, productId, { ...high, inventoryAvailable: true }, low), [0, 1]);
    t.same(
      await put(app, productId, { price: '76.00' }, { variantId: '11', price: '60.00' }),
      [1, 0],
      'its own line',
    );
    const usd = { variantId: '13', price: '1.00', currencyCode: 'USD' };
    const eur = { variantId: '14', price: '74.00', currencyCode: 'EUR' };
    t.same(await put(app, productId, usd, eur), [1, 0], "the lowest one of the item's currency");
    const told = (await alertsOf(redis, app)).filter(({ session_id }) => session_id === other.sessionId);
    t.same(told.map(({ type, price }) => [type, price]).sort(), [
      ['backInStock', '75.00'],
      ['priceDrop', '74.00'],
      ['priceDrop', '75.00'],
    ]);
  });

  t.test('all wishers are told, each once, and nobody else', async (t) => {
    const productId = String(next++);
    const names = Array.from({ length: 120 }, (_, i) => `many-${i}`);
    await Promise.all(names.map((sessionId) => app.shop.add({ sessionId }, { productId, price: '80.00' })));
    await app.shop.add({ sessionId: 'many-x' }, { productId: `${productId}0`, price: '80.00' });
    t.same(await putAt(app, productId, '70.00'), [120, 0]);
    const told = (await alertsOf(redis, app)).filter(({ product_id }) => product_id === productId);
    t.same(told.map(({ session_id }) => session_id).sort(), names.sort());
    t.ok(((await app.figure('events_total{type="priceDrop"}')) ?? 0) >= 120);
  });
});

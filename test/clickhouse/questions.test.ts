// The twelve questions of docs/analysts.md, answered in a small world (small-world.ts) as they were worked out by hand:
// with every visit read itself, and again from the totals of days that are over.

import t, { type Test } from 'tap';
import { QUIET_MS, totalDays } from '../../src/clickhouse/daily-totals.js';
import { QUESTIONS } from '../../src/clickhouse/views.js';
import { startDatabases } from './databases.js';
import { dateOf, makeSmallWorld, timeOf } from './small-world.js';

const { own: client } = await (await startDatabases()).migrated(t);
await makeSmallWorld(client);

const MONTH = `from = '${dateOf(1)}', to = '${dateOf(31)}'`;
const shoe = { product_id: '1', product_handle: 'shoe', product_title: 'Red shoe' };
const hat = { product_id: '2', product_handle: 'hat', product_title: 'Blue hat' };
const bag = { product_id: '3', product_handle: 'bag', product_title: 'Green bag' };
const bought = (revenue: object = {}) => revenue;

interface Answer {
  readonly parameters: string;
  readonly rows: readonly object[];
}

const ANSWERS: Readonly<Record<(typeof QUESTIONS)[number] | 'product_funnel', Answer>> = {
  // Ann wished twice, the first time as a guest: three adds, two wishers.
  most_wished: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, adds: 3 },
      { ...shoe, wishers: 2, adds: 3 },
      { ...hat, wishers: 1, adds: 1 },
    ],
  },
  // Ann's is in the cart, Bob's removed, Dan's bought, if late. Bob's bag of day 0 is before the month.
  open_wishes: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 2, items: 2, oldest: timeOf(9, 12) },
      { ...hat, wishers: 1, items: 1, oldest: timeOf(20, 12) },
    ],
  },
  // Days 3 to 9: shoe by Ann and Bob, bag by Dan and Eve. Days -4 to 2: bag by Bob.
  momentum: {
    parameters: `until = '${dateOf(9)}'`,
    rows: [
      { ...shoe, wishers: 2, wishers_before: 0, change: 2, growth: null },
      { ...bag, wishers: 2, wishers_before: 1, change: 1, growth: 1 },
    ],
  },
  // The shoe was looked at by Ann (three times, twice as a guest) and Bob.
  wish_rate: {
    parameters: MONTH,
    rows: [
      { ...bag, visits: 5, visitors: 4, wishers: 3, wish_rate: 0.75 },
      { ...shoe, visits: 4, visitors: 2, wishers: 2, wish_rate: 1 },
      { ...hat, visits: 6, visitors: 2, wishers: 1, wish_rate: 0.5 },
      {
        product_id: '',
        product_handle: 'mug',
        product_title: '',
        visits: 1,
        visitors: 1,
        wishers: 0,
        wish_rate: 0,
      },
    ],
  },
  // To day 10 Cyd had not wished for the hat, but did later. Ann looked three times over two profiles, and wished.
  looked_never_wished: {
    parameters: `from = '${dateOf(1)}', to = '${dateOf(10)}'`,
    rows: [{ ...hat, visitors: 1, visits: 3 }],
  },
  // Bag: one visit each, 48 hours before (Dan) and 1 hour. Shoe: Ann 2 visits and 26 hours, Bob 1 and 72; of two the
  // larger is the median. Hat: from day 5, 9 h, to day 20, 12 h.
  before_the_wish: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, wishers_who_visited: 3, visits_median: 1, hours_median: 1 },
      { ...shoe, wishers: 2, wishers_who_visited: 2, visits_median: 2, hours_median: 72 },
      { ...hat, wishers: 1, wishers_who_visited: 1, visits_median: 3, hours_median: 363 },
    ],
  },
  wish_to_cart: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, carters: 0, cart_rate: 0, hours_median: null },
      { ...shoe, wishers: 2, carters: 1, cart_rate: 0.5, hours_median: 72 },
      { ...hat, wishers: 1, carters: 0, cart_rate: 0, hours_median: null },
    ],
  },
  // Two shoes at 45 less 7.50, once. Fay's test order is none. Ann's hat was never wished for; Dan's bag came after 33 days.
  wish_to_purchase: {
    parameters: MONTH,
    rows: [
      {
        ...{ ...shoe, wishers: 2, currency: 'EUR', buyers: 1, purchase_rate: 0.5 },
        ...{ orders: 1, quantity: 2, revenue: 82.5, average_order: 82.5 },
      },
      ...[
        { ...bag, wishers: 3 },
        { ...hat, wishers: 1 },
      ].map((product) => ({
        ...product,
        ...{ currency: '', buyers: 0, purchase_rate: 0, orders: 0, quantity: 0, revenue: 0 },
        average_order: null,
      })),
    ],
  },
  shop_funnel: {
    parameters: MONTH,
    rows: [{ visits: 16, visitors: 7, wishers: 6, carters: 1, buyers: 1, revenue: bought({ EUR: 82.5 }) }],
  },
  // Wished in the first week: Ann, who came a week later, Dan, who came two weeks later, and Bob, who did not.
  wishers_returning: {
    parameters: MONTH,
    rows: (
      [
        [2, 3, [1 / 3, 1 / 3, 0, 0, 0, 0, 0, 0]],
        [9, 1, [0, 0, 0, 0, 0, 0, 0, 0]],
        [16, 2, [0, 0, 0, 0, 0, 0, 0, 0]],
      ] as const
    ).flatMap(([day, wishers, rates]) =>
      rates.map((return_rate, i) => ({
        ...{ week: dateOf(day), weeks_later: i + 1, wishers, returned: Math.round(wishers * return_rate) },
        return_rate,
      })),
    ),
  },
  // Eve alone: Bob's and Dan's wishes are not open, and Fay's was in stock at today's price.
  restock_and_price_drops: {
    parameters: MONTH,
    rows: [
      {
        ...{ product_id: '3', variant_id: '31', product_handle: 'bag', product_title: 'Green bag' },
        ...{ wished_out_of_stock: 1, in_stock_now: true, wished_dearer: 1, price_now: 80, currency: 'USD' },
      },
    ],
  },
  // Ann's first wish was from pdp, her second from a collection.
  adds_by_source: {
    parameters: MONTH,
    rows: [
      { source: 'pdp', adds: 3, wishes: 3, wishers: 3, carted: 1, bought: 1, revenue: bought({ EUR: 82.5 }) },
      { source: 'collection', adds: 2, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: bought() },
      { source: 'email', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: bought() },
      { source: 'pdpSmartSave', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: bought() },
    ],
  },
  product_funnel: {
    parameters: MONTH,
    rows: (
      [
        ['3', 'bag', 5, 4, 3, 0, 0, bought()],
        ['1', 'shoe', 4, 2, 2, 1, 1, bought({ EUR: 82.5 })],
        ['2', 'hat', 6, 2, 1, 0, 0, bought()],
        ['', 'mug', 1, 1, 0, 0, 0, bought()],
      ] as const
    ).map(([product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue]) => ({
      ...{ product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue },
    })),
  },
};

async function answersAreRight(t: Test): Promise<void> {
  for (const [view, { parameters, rows }] of Object.entries(ANSWERS)) {
    const answer = await client.query({
      query: `SELECT * FROM ${view}(${parameters})`,
      format: 'JSONEachRow',
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
    });
    t.same(await answer.json(), rows, view);
  }
}

t.test('there are twelve questions, and each is answered here', async (t) => {
  t.equal(QUESTIONS.length, 12);
  for (const view of QUESTIONS) t.ok(ANSWERS[view], view);
});

t.test('the answers, from every visit', answersAreRight);

t.test('the answers, from totals of the days that are over', async (t) => {
  const days = await totalDays(client, Date.now() + 2 * QUIET_MS);
  t.same(days, [2, 3, 4, 5, 6, 9, 10, 11, 17, 21].map(dateOf), 'every day with a visit');
  const open = await client.query({ query: 'SELECT * FROM open_visit_days', format: 'JSONEachRow' });
  t.same(await open.json(), []);
  await answersAreRight(t);
});

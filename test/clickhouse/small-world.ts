// A month of a shop that is small enough to work out every answer by hand. What happens:
//
//   ann   looks at the shoe on days 2 and 3 as a guest, wishes for it on day 3, is merged into her customer's profile on
//         day 4, looks and wishes again, moves it to the cart on day 6, buys two of it and a hat on day 7, with a discount
//   bob   wishes for the bag on day 0; looks at the shoe on day 2, wishes for it on day 5 while it is out of stock,
//         removes it on day 6; looks at the hat three times and never wishes for it
//   cyd   looks at the hat three times on day 5 and wishes for it on day 20
//   dan   looks at the bag on day 6, wishes for it on day 8, looks again on day 17, buys it on day 41
//   eve   wishes for the bag on day 9, while it is out of stock and costs 100
//   fay   wishes for the bag on day 21, when it is in stock and costs 80; a test order of hers has ten on day 22
//   gus   looks at a mug, of which nothing else is known
//
// Dan's profile becomes a customer's on day 7, which is told again two days later, and Fay's on day 22.
//
// Day 2 is a Monday. A visit, an event, a line of an order and a merge were each stored twice.

import type { ClickHouseClient } from '@clickhouse/client';
import { v7 as uuid } from 'uuid';
import { insertEvents } from '../../src/clickhouse/insert.js';
import type { QUESTIONS } from '../../src/clickhouse/views.js';
import { encodeAdoption, encodeMerge } from '../../src/events/row.js';
import { orderRow } from '../flush/fixtures.js';

const PRODUCTS = {
  shoe: { product_id: '1', variant_id: '11', title: 'Red shoe' },
  hat: { product_id: '2', variant_id: '21', title: 'Blue hat' },
  bag: { product_id: '3', variant_id: '31', title: 'Green bag' },
} as const;
type Product = keyof typeof PRODUCTS;

/** Milliseconds since 1970. */
const at = (day: number, hour: number): number => Date.UTC(2025, 2, day + 1, hour);
export const dateOf = (day: number): string => new Date(at(day, 0)).toISOString().slice(0, 10);
/** As ClickHouse writes it. */
const timeOf = (day: number, hour: number): string =>
  new Date(at(day, hour)).toISOString().replace('T', ' ').slice(0, 23);

function step(who: string, type: string, product: Product, day: number, hour: number, more: object = {}) {
  const { product_id, variant_id, title } = PRODUCTS[product];
  return {
    event_id: uuid(),
    type,
    occurred_at: at(day, hour),
    profile_id: who,
    origin: 'item',
    product_id,
    variant_id,
    product_handle: product,
    payload: { productTitle: title },
    ...more,
  };
}

const add = (who: string, product: Product, day: number, source: string, price: string, more: object = {}) =>
  step(who, 'add', product, day, 12, { source, price, currency: 'EUR', inventory_available: true, ...more });

function bought(who: string, product: Product, day: number, orderId: string, quantity: number, more: object) {
  const { product_id: productId, variant_id: variantId } = PRODUCTS[product];
  const stated = { line: product, orderId, productId, variantId, quantity, currency: 'EUR', ...more };
  return orderRow(stated, { occurred_at: at(day, 12), profile_id: who });
}

const DOLLARS = { currency: 'USD' };
const SOLD_OUT = { inventory_available: false };

const EVENTS = [
  add('bob', 'bag', 0, 'wishlist', '90.00'),
  add('guest', 'shoe', 3, 'pdp', '50.00'),
  { ...add('ann', 'shoe', 4, 'wishlist', '50.00'), occurred_at: at(4, 9) },
  add('bob', 'shoe', 5, 'pdpSmartSave', '60.00', SOLD_OUT),
  step('ann', 'moveToCart', 'shoe', 6, 12, { price: '50.00', quantity: 1 }),
  step('bob', 'remove', 'shoe', 6, 13),
  bought('ann', 'shoe', 7, 'o1', 2, { price: '45.00', discount: '7.50', amount: '82.50' }),
  bought('ann', 'hat', 7, 'o1', 1, { price: '20.00', amount: '20.00' }),
  add('dan', 'bag', 8, 'pdp', '100.00', { ...DOLLARS, ...SOLD_OUT }),
  add('eve', 'bag', 9, 'collection', '100.00', { ...DOLLARS, ...SOLD_OUT }),
  add('cyd', 'hat', 20, 'email', '20.00'),
  add('fay', 'bag', 21, 'pdp', '80.00', DOLLARS),
  bought('fay', 'bag', 22, 'o3', 10, { price: '80.00', amount: '800.00', test: true }),
  bought('dan', 'bag', 41, 'o2', 1, { price: '100.00', amount: '100.00', ...DOLLARS }),
];
const REPEATED = [1, 6].map((i) => EVENTS[i]);

const VISITS: readonly [who: string, handle: string, day: number, hour: number][] = [
  ['guest', 'shoe', 2, 10],
  ['guest', 'shoe', 3, 10],
  ['ann', 'shoe', 4, 8],
  ['bob', 'shoe', 2, 12],
  ...[9, 10, 11].flatMap((hour): [string, string, number, number][] => [
    ['bob', 'hat', 5, hour],
    ['cyd', 'hat', 5, hour],
  ]),
  ['dan', 'bag', 6, 12],
  ['eve', 'bag', 9, 11],
  ['ann', 'bag', 10, 10],
  ['gus', 'mug', 11, 10],
  ['dan', 'bag', 17, 10],
  ['fay', 'bag', 21, 11],
];

const linesOf = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const never = new AbortController().signal;

export async function insertVisits(
  client: ClickHouseClient,
  visits: readonly (readonly [who: string, handle: string, day: number, hour: number])[],
  place = 0,
): Promise<void> {
  await client.insert({
    table: 'visits_stored',
    values: visits.map(([profile_id, product_handle, day, hour], i) => ({
      occurred_at: at(day, hour),
      stream: 0,
      entry: 1,
      place: place + i,
      profile_id,
      product_handle,
      device: i % 2 === 0 ? 'phone' : 'desktop',
    })),
    format: 'JSONEachRow',
    // The same visits are inserted again after they were deleted.
    clickhouse_settings: { insert_deduplication_token: uuid() },
  });
}

/** @param client with a migrated database */
export async function makeSmallWorld(client: ClickHouseClient): Promise<void> {
  const merge = encodeMerge(uuid(), at(4, 0), 'guest', 'ann');
  const adopted = [
    encodeAdoption('dan', at(7, 0)),
    encodeAdoption('dan', at(9, 0)),
    encodeAdoption('fay', at(22, 0)),
  ];
  await insertEvents(client, Buffer.from(linesOf(EVENTS) + merge + adopted.join('')), never);
  await insertEvents(client, Buffer.from(linesOf(REPEATED) + merge), never);
  await insertVisits(client, VISITS);
  await insertVisits(client, VISITS.slice(0, 1));
}

/** As parameters of a view. */
const MONTH = `from = '${dateOf(1)}', to = '${dateOf(31)}'`;
const shoe = { product_id: '1', product_handle: 'shoe', product_title: 'Red shoe' };
const hat = { product_id: '2', product_handle: 'hat', product_title: 'Blue hat' };
const bag = { product_id: '3', product_handle: 'bag', product_title: 'Green bag' };

interface Answer {
  readonly parameters: string;
  readonly rows: readonly object[];
}

/** The questions of docs/analysts.md, and what the dashboard asks, as they were worked out by hand. */
export const ANSWERS: Readonly<Record<(typeof QUESTIONS)[number] | 'product_funnel', Answer>> = {
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
        ...{ ...shoe, wishers: 2, buyers: 1, purchase_rate: 0.5 },
        ...{ orders: 1, quantity: 2, revenue: { EUR: 82.5 }, average_order: { EUR: 82.5 } },
      },
      ...[
        { ...bag, wishers: 3 },
        { ...hat, wishers: 1 },
      ].map((product) => ({
        ...product,
        ...{ buyers: 0, purchase_rate: 0, orders: 0, quantity: 0, revenue: {}, average_order: {} },
      })),
    ],
  },
  // Dan bought the bag, if late; Ann the shoe. Fay's test order is none.
  wished_never_bought: {
    parameters: MONTH,
    rows: [
      { ...bag, wishers: 3, never_bought: 2, bought_nothing: 2 },
      { ...shoe, wishers: 2, never_bought: 1, bought_nothing: 1 },
      { ...hat, wishers: 1, never_bought: 1, bought_nothing: 1 },
    ],
  },
  shop_funnel: {
    parameters: MONTH,
    rows: [{ visits: 16, visitors: 7, wishers: 6, carters: 1, buyers: 1, revenue: { EUR: 82.5 } }],
  },
  // Wished in the first week: Ann, who came a week later, Dan, who came two weeks later, and Bob, who did not.
  wishers_returning: {
    parameters: MONTH,
    rows: (
      [
        [2, 3, [1, 1, 0, 0, 0, 0, 0, 0]],
        [9, 1, [0, 0, 0, 0, 0, 0, 0, 0]],
        [16, 2, [0, 0, 0, 0, 0, 0, 0, 0]],
      ] as const
    ).map(([day, wishers, returned]) => ({
      ...{ week: dateOf(day), wishers },
      ...Object.fromEntries(returned.map((n, i) => [`returned_${i + 1}`, n])),
    })),
  },
  // In the first week Ann, who came a week later, Dan, who came two weeks later, Bob and Cyd; then Eve and Gus; then Fay.
  visitor_cohorts: {
    parameters: MONTH,
    rows: (
      [
        [2, 4, [1, 1, 0, 0, 0, 0, 0, 0]],
        [9, 2, [0, 0, 0, 0, 0, 0, 0, 0]],
        [16, 1, [0, 0, 0, 0, 0, 0, 0, 0]],
      ] as const
    ).map(([day, visitors, returned]) => ({
      ...{ week: dateOf(day), visitors },
      ...Object.fromEntries(returned.map((n, i) => [`returned_${i + 1}`, n])),
    })),
  },
  // In the first week Ann, Bob, Cyd and Dan; then Eve, Ann and Gus; then Dan and Fay; then nobody.
  visitors_by_week: {
    parameters: MONTH,
    rows: (
      [
        [2, 11, 4, 0, 4, null],
        [9, 3, 3, 4, -1, -1 / 4],
        [16, 2, 2, 3, -1, 2 / 3 - 1],
        [23, 0, 0, 2, -2, -1],
      ] as const
    ).map(([day, visits, visitors, visitors_before, change, growth]) => ({
      ...{ week: dateOf(day), visits, visitors, visitors_before, change, growth },
    })),
  },
  // Ann's guest was merged, and had wished. Dan became a customer before his wish, Fay after hers.
  guests_converted: {
    parameters: MONTH,
    rows: [
      { day: dateOf(4), converted: 0, merged: 1, wished_before: 1 },
      { day: dateOf(7), converted: 1, merged: 0, wished_before: 0 },
      { day: dateOf(22), converted: 1, merged: 0, wished_before: 1 },
    ],
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
  // Ann's first wish was from pdp; her second, from a wishlist, is a repeat.
  adds_by_source: {
    parameters: MONTH,
    rows: [
      { source: 'pdp', adds: 3, wishes: 3, wishers: 3, carted: 1, bought: 1, revenue: { EUR: 82.5 } },
      { source: 'collection', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
      { source: 'email', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
      { source: 'pdpSmartSave', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
      { source: 'wishlist', adds: 1, wishes: 0, wishers: 0, carted: 0, bought: 0, revenue: {} },
    ],
  },
  product_funnel: {
    parameters: MONTH,
    rows: (
      [
        ['3', 'bag', 5, 4, 3, 0, 0, {}],
        ['1', 'shoe', 4, 2, 2, 1, 1, { EUR: 82.5 }],
        ['2', 'hat', 6, 2, 1, 0, 0, {}],
        ['', 'mug', 1, 1, 0, 0, 0, {}],
      ] as const
    ).map(([product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue]) => ({
      ...{ product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue },
    })),
  },
};

// A month of a shop that is small enough to work out every answer by hand. What happens:
//   ann   looks at the shoe on days 2 and 3 as a guest, wishes for it on day 3, is merged into her customer's profile on
//         day 4, looks and wishes again, moves it to the cart on day 6, buys two of it and a hat on day 7, with a discount
//   bob   wishes for the bag on day 0; looks at the shoe on day 2, wishes for it on day 5 while it is out of stock,
//         removes it on day 6; looks at the hat three times and never wishes for it
//   cyd   looks at the hat three times on day 5 and wishes for it on day 20
//   dan   looks at the bag on day 6, wishes for it on day 8, looks again on day 17, buys it on day 41
//   eve   wishes for the bag on day 9, while it is out of stock and costs 100
//   fay   wishes for the bag on day 21, when it is in stock and costs 80; a test order of hers has ten on day 22
//   gus   looks at a mug, of which nothing else is known
// Dan is a guest until he becomes a customer on day 7, and Fay until day 22.
// Day 2 is a Monday. A visit, an event, a line of an order and a merge were each stored twice.

import type { ClickHouseClient } from '@clickhouse/client';
import { v7 as uuid } from 'uuid';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { orderRow } from '../flush/fixtures.js';

const PRODUCTS = {
  shoe: { product_id: '1', variant_id: '11', title: 'Red shoe' },
  hat: { product_id: '2', variant_id: '21', title: 'Blue hat' },
  bag: { product_id: '3', variant_id: '31', title: 'Green bag' },
} as const;
type Product = keyof typeof PRODUCTS;

const at = (day: number, hour: number): number => Date.UTC(2025, 2, day + 1, hour);
export const dateOf = (day: number): string => new Date(at(day, 0)).toISOString().slice(0, 10);

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
  add('fay-guest', 'bag', 21, 'pdp', '80.00', DOLLARS),
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
  ['dan-guest', 'bag', 6, 12],
  ['eve', 'bag', 9, 11],
  ['ann', 'bag', 10, 10],
  ['gus', 'mug', 11, 10],
  ['dan', 'bag', 17, 10],
  ['fay-guest', 'bag', 21, 11],
];

const linesOf = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const never = new AbortController().signal;

export async function insertVisits(
  client: ClickHouseClient,
  visits: readonly (readonly [who: string, handle: string, day: number, hour: number])[],
  firstLine = 0,
): Promise<void> {
  await client.insert({
    table: 'visits_stored',
    values: visits.map(([profile_id, product_handle, day, hour], i) => ({
      occurred_at: at(day, hour),
      stream: 0,
      entry: 1,
      line: firstLine + i,
      profile_id,
      product_handle,
      device: i % 2 === 0 ? 'phone' : 'desktop',
    })),
    format: 'JSONEachRow',
    clickhouse_settings: { insert_deduplication_token: uuid() },
  });
}

export async function makeSmallWorld(client: ClickHouseClient): Promise<void> {
  const merge = (from: string, into: string, day: number, isNew: boolean) =>
    encodeMerge(uuid(), at(day, 0), from, { into, isNew });
  const merges =
    merge('guest', 'ann', 4, false) +
    merge('dan-guest', 'dan', 7, true) +
    merge('fay-guest', 'fay', 22, true);
  await insertEvents(client, Buffer.from(linesOf(EVENTS) + merges), never);
  await insertEvents(client, Buffer.from(linesOf(REPEATED) + merges), never);
  await insertVisits(client, VISITS);
  await insertVisits(client, VISITS.slice(0, 1));
}

const shoe = { product_id: '1', product_handle: 'shoe', product_title: 'Red shoe' };
const hat = { product_id: '2', product_handle: 'hat', product_title: 'Blue hat' };
const bag = { product_id: '3', product_handle: 'bag', product_title: 'Green bag' };

const row = (profile_id: string, day: number, more: object) =>
  `${JSON.stringify({ event_id: newEventId(at(day, 0)), occurred_at: at(day, 0), profile_id, ...more })}\n`;
const share = (who: string, day: number, share_code: string, channel: string) =>
  row(who, day, { type: 'share', origin: 'share', share_code, channel, payload: {} });
const open = (day: number, share_code: string) =>
  row('ann', day, { type: 'shareOpen', origin: 'open', share_code, payload: {} });
const alert = (who: string, day: number, of: typeof shoe, type: string, priceBefore: string, price: string) =>
  row(who, day, {
    ...{ type, origin: 'alert', product_id: of.product_id, product_handle: of.product_handle },
    ...{ price, currency: 'EUR', payload: { priceBefore } },
  });

/** Shares and alerts that come out wrong if a join multiplies rows, forgets a time, or ignores merges. */
export const MORE = [
  ...[
    share('ann', 10, 'a', 'Link'),
    share('ann', 11, 'a', 'Email'),
    share('bob', -3, 'b', 'Link'),
    share('ann', 12, 'a', 'Link'),
  ],
  ...[open(-3, 'c'), open(10, 'a'), open(11, 'a'), open(12, 'a'), open(13, 'b')],
  // Ann is alerted as the guest she was, and visits three times. Bob had visited before. Eve visits once.
  // Fay's is too old.
  alert('guest', 1, shoe, 'priceDrop', '100.00', '90.00'),
  alert('bob', 6, shoe, 'priceDrop', '100.00', '40.00'),
  alert('eve', 8, bag, 'priceDrop', '100.00', '80.00'),
  alert('fay-guest', -3, bag, 'priceDrop', '100.00', '1.00'),
  alert('cyd', 4, hat, 'backInStock', '20.00', '20.00'),
];

/** Text of a query of docs/analysts.md -> its rows in March 2025 with MORE, worked out by hand; the dashboard asks product_funnel. */
export const ANSWERS: Readonly<Record<string, readonly object[]>> = {
  'FROM events_per_day': (
    [
      [-3, 'share'],
      [0, 'add'],
      [3, 'add'],
      [4, 'add'],
      [5, 'add'],
      [6, 'moveToCart'],
      [6, 'remove'],
      [8, 'add'],
      [9, 'add'],
      [10, 'share'],
      [11, 'share'],
      [12, 'share'],
      [20, 'add'],
      [21, 'add'],
    ] as const
  ).map(([day, type]) => ({ day: dateOf(day), type, events: 1 })),
  'FROM top_products': [
    { product_id: '3', product_handle: 'bag', adds: 4, moves_to_cart: 0 },
    { product_id: '1', product_handle: 'shoe', adds: 3, moves_to_cart: 1 },
    { product_id: '2', product_handle: 'hat', adds: 1, moves_to_cart: 0 },
  ],
  'FROM shares_by_channel': [
    { channel: 'Link', shares: 3, share_links: 2, profiles: 2 },
    { channel: 'Email', shares: 1, share_links: 1, profiles: 1 },
  ],
  'most_wished(': [
    { ...bag, wishers: 4, adds: 4 },
    { ...shoe, wishers: 2, adds: 3 },
    { ...hat, wishers: 1, adds: 1 },
  ],
  'open_wishes(': [
    { ...bag, wishers: 3, items: 3, oldest: '2025-03-01 12:00:00.000' },
    { ...hat, wishers: 1, items: 1, oldest: '2025-03-21 12:00:00.000' },
  ],
  // In the last 7 days nobody saved anything; before that, Cyd and Fay did.
  'momentum(': [
    { ...hat, wishers: 0, wishers_before: 1, change: -1, growth: -1 },
    { ...bag, wishers: 0, wishers_before: 1, change: -1, growth: -1 },
  ],
  'wish_rate(': [
    { ...bag, visits: 5, visitors: 4, wishers: 4, wish_rate: 1 },
    { ...shoe, visits: 4, visitors: 2, wishers: 2, wish_rate: 1 },
    { ...hat, visits: 6, visitors: 2, wishers: 1, wish_rate: 0.5 },
    {
      ...{ product_id: '', product_handle: 'mug', product_title: '' },
      ...{ visits: 1, visitors: 1, wishers: 0, wish_rate: 0 },
    },
  ],
  'looked_never_wished(': [{ ...hat, visitors: 1, visits: 3 }],
  'before_the_wish(': [
    { ...bag, wishers: 4, wishers_who_visited: 3, visits_median: 1, hours_median: 1 },
    { ...shoe, wishers: 2, wishers_who_visited: 2, visits_median: 2, hours_median: 72 },
    { ...hat, wishers: 1, wishers_who_visited: 1, visits_median: 3, hours_median: 363 },
  ],
  'wish_to_cart(': [
    { ...bag, wishers: 4, carters: 0, cart_rate: 0, hours_median: null },
    { ...shoe, wishers: 2, carters: 1, cart_rate: 0.5, hours_median: 72 },
    { ...hat, wishers: 1, carters: 0, cart_rate: 0, hours_median: null },
  ],
  'wish_to_purchase(': [
    {
      ...{ ...shoe, wishers: 2, buyers: 1, purchase_rate: 0.5 },
      ...{ orders: 1, quantity: 2, revenue: { EUR: 82.5 }, average_order: { EUR: 82.5 } },
    },
    ...[
      { ...bag, wishers: 4 },
      { ...hat, wishers: 1 },
    ].map((product) => ({
      ...product,
      ...{ buyers: 0, purchase_rate: 0, orders: 0, quantity: 0, revenue: {}, average_order: {} },
    })),
  ],
  'wished_never_bought(': [
    { ...bag, wishers: 4, never_bought: 3, bought_nothing: 3 },
    { ...shoe, wishers: 2, never_bought: 1, bought_nothing: 1 },
    { ...hat, wishers: 1, never_bought: 1, bought_nothing: 1 },
  ],
  'shop_funnel(': [{ visits: 16, visitors: 7, wishers: 6, carters: 1, buyers: 1, revenue: { EUR: 82.5 } }],
  // Bob's first wish is in the week before now, and he came in the week after it.
  'wishers_returning(': (
    [
      [-5, 1, [1, 0]],
      [2, 2, [1, 1]],
      [9, 1, [0, 0]],
      [16, 2, [0, 0]],
    ] as const
  ).map(([day, wishers, returned]) => ({
    ...{ week: dateOf(day), wishers },
    ...Object.fromEntries([...returned, 0, 0, 0, 0, 0, 0].map((n, i) => [`returned_${i + 1}`, n])),
  })),
  // In the first week Ann, who came a week later, Dan, who came two weeks later, Bob and Cyd; then Eve and Gus; then Fay.
  'visitor_cohorts(': (
    [
      [2, 4, [1, 1, 0, 0, 0, 0, 0, 0]],
      [9, 2, [0, 0, 0, 0, 0, 0, 0, 0]],
      [16, 1, [0, 0, 0, 0, 0, 0, 0, 0]],
    ] as const
  ).map(([day, visitors, returned]) => ({
    ...{ week: dateOf(day), visitors },
    ...Object.fromEntries(returned.map((n, i) => [`returned_${i + 1}`, n])),
  })),
  // In the first week Ann, Bob, Cyd and Dan; then Eve, Ann and Gus; then Dan and Fay; then nobody.
  'visitors_by_week(': (
    [
      [2, 11, 4, 0, 4, null],
      [9, 3, 3, 4, -1, -1 / 4],
      [16, 2, 2, 3, -1, 2 / 3 - 1],
      [23, 0, 0, 2, -2, -1],
    ] as const
  ).map(([day, visits, visitors, visitors_before, change, growth]) => ({
    ...{ week: dateOf(day), visits, visitors, visitors_before, change, growth },
  })),
  // Ann's guest was merged, and had wished. Dan became a customer before his wish, Fay after hers.
  'guests_converted(': [
    { day: dateOf(4), converted: 0, merged: 1, wished_before: 1 },
    { day: dateOf(7), converted: 1, merged: 0, wished_before: 0 },
    { day: dateOf(22), converted: 1, merged: 0, wished_before: 1 },
  ],
  // Eve alone: Bob's and Dan's wishes are not open, and Fay's was in stock at today's price.
  'restock_and_price_drops(': [
    {
      ...{ product_id: '3', variant_id: '31', product_handle: 'bag', product_title: 'Green bag' },
      ...{ wished_out_of_stock: 1, in_stock_now: true, wished_dearer: 1, price_now: 80, currency: 'USD' },
    },
  ],
  'adds_by_source(': [
    { source: 'pdp', adds: 3, wishes: 3, wishers: 3, carted: 1, bought: 1, revenue: { EUR: 82.5 } },
    { source: 'wishlist', adds: 2, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
    { source: 'collection', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
    { source: 'email', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
    { source: 'pdpSmartSave', adds: 1, wishes: 1, wishers: 1, carted: 0, bought: 0, revenue: {} },
  ],
  'product_funnel(': (
    [
      ['3', 'bag', 5, 4, 4, 0, 0, {}],
      ['1', 'shoe', 4, 2, 2, 1, 1, { EUR: 82.5 }],
      ['2', 'hat', 6, 2, 1, 0, 0, {}],
      ['', 'mug', 1, 1, 0, 0, 0, {}],
    ] as const
  ).map(([product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue]) => ({
    ...{ product_id, product_handle, visits, visitors, wishers, carters, buyers, revenue },
  })),
  'AS links_shared': [{ links_shared: 1, links_opened: 2, opens: 4 }],
  // The mean of 0.1, 0.6 and 0.2; weighted by visits it would be 0.22.
  'AS fell_by': [
    { type: 'backInStock', wishers: 1, came_back: 1, fell_by: 0 },
    { type: 'priceDrop', wishers: 3, came_back: 2, fell_by: 0.3 },
  ],
  'uniqCombinedMerge(14)(visitors_sketch)': [{ visits: 16, visitors: 7 }],
};

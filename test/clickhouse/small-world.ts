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
// Day 2 is a Monday. A visit, an event, a line of an order and a merge were each stored twice.

import type { ClickHouseClient } from '@clickhouse/client';
import { v7 as uuid } from 'uuid';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { encodeMerge } from '../../src/events/row.js';

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
export const timeOf = (day: number, hour: number): string =>
  new Date(at(day, hour)).toISOString().replace('T', ' ').slice(0, 23);

function step(who: string, type: string, product: Product, day: number, hour: number, more: object = {}) {
  const { product_id, variant_id, title } = PRODUCTS[product];
  const isOrder = type === 'purchase';
  return {
    event_id: uuid(),
    type,
    occurred_at: at(day, hour),
    profile_id: who,
    origin: isOrder ? 'order' : 'item',
    product_id,
    variant_id,
    product_handle: isOrder ? '' : product,
    payload: isOrder ? {} : { productTitle: title },
    ...more,
  };
}

const add = (who: string, product: Product, day: number, source: string, price: string, more: object = {}) =>
  step(who, 'add', product, day, 12, { source, price, currency: 'EUR', inventory_available: true, ...more });

const paid = (order_id: string, quantity: number, price: string, amount: string) => ({
  order_id,
  quantity,
  price,
  amount,
  currency: 'EUR',
});

const DOLLARS = { currency: 'USD' };
const SOLD_OUT = { inventory_available: false };

const EVENTS = [
  add('bob', 'bag', 0, 'wishlist', '90.00'),
  add('guest', 'shoe', 3, 'pdp', '50.00'),
  { ...add('ann', 'shoe', 4, 'collection', '50.00'), occurred_at: at(4, 9) },
  add('bob', 'shoe', 5, 'pdpSmartSave', '60.00', SOLD_OUT),
  step('ann', 'moveToCart', 'shoe', 6, 12, { price: '50.00', quantity: 1 }),
  step('bob', 'remove', 'shoe', 6, 13),
  step('ann', 'purchase', 'shoe', 7, 12, { ...paid('o1', 2, '45.00', '82.50'), discount: '7.50' }),
  step('ann', 'purchase', 'hat', 7, 12, paid('o1', 1, '20.00', '20.00')),
  add('dan', 'bag', 8, 'pdp', '100.00', { ...DOLLARS, ...SOLD_OUT }),
  add('eve', 'bag', 9, 'collection', '100.00', { ...DOLLARS, ...SOLD_OUT }),
  add('cyd', 'hat', 20, 'email', '20.00'),
  add('fay', 'bag', 21, 'pdp', '80.00', DOLLARS),
  step('fay', 'purchase', 'bag', 22, 12, { ...paid('o3', 10, '80.00', '800.00'), test: true }),
  step('dan', 'purchase', 'bag', 41, 12, { ...paid('o2', 1, '100.00', '100.00'), ...DOLLARS }),
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
  });
}

/** @param client with a migrated database */
export async function makeSmallWorld(client: ClickHouseClient): Promise<void> {
  const merge = encodeMerge(uuid(), at(4, 0), 'guest', 'ann');
  await insertEvents(client, Buffer.from(linesOf(EVENTS) + merge), 'once', never);
  await insertEvents(client, Buffer.from(linesOf(REPEATED) + merge), 'again', never);
  await insertVisits(client, VISITS);
  await insertVisits(client, VISITS.slice(0, 1));
}

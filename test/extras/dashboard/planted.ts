// Wishes of June 2024, for figures that are counted by hand. No other month of the shop has these products. What happens:
//   ida  wishes for the lamp in May
//   ada  a customer; wishes for two lamps on day 2, while they are out of stock and cost 40, and for the large one on day 5
//   ben  a guest; wishes for the lamp in dollars on day 3, while it is out of stock
//   cat  a guest until day 9; wishes for the large lamp on day 4, when it costs 45
//   dan  Smart Save saves the lamp for him on day 6, when it costs 36 and is in stock; he undoes it
//   eve  wishes for the vase on day 6, removes it on day 7, and wishes for it again on day 8
//   fay  wishes for the vase on day 7; her wish has no price
//   gus  Smart Save saves the vase for him on day 8; he buys it on day 9
//   hal  Smart Save saves the vase for him on day 8, and he keeps it; on day 10 he saves a lamp from a friend's list
//   joy  saves the vase from a friend's list on day 11, and buys it on day 12
// Links to three lists are shared, one of them twice; people open two of them, one twice, and a link of May.

import type { ClickHouseClient } from '@clickhouse/client';
import { insertEvents } from '../../../src/clickhouse/insert.js';
import { newEventId } from '../../../src/events/event-id.js';
import { encodeMerge, encodeShareOpen } from '../../../src/events/row.js';
import { orderRow } from '../../flush/fixtures.js';

export const JUNE = { from: '2024-06-01', to: '2024-06-30' };
const at = (day: number, hour = 12): number => Date.UTC(2024, 5, day, hour);

const PRODUCTS = {
  lamp: { product_id: '101', variant_id: '1011', product_handle: 'lamp' },
  large: { product_id: '101', variant_id: '1012', product_handle: 'lamp' },
  vase: { product_id: '102', variant_id: '', product_handle: 'vase' },
} as const;
type Product = keyof typeof PRODUCTS;
/** Of the shop, and of a stranger. */
const IMAGES = { lamp: 'https://shop.example/lamp.jpg', vase: 'https://evil.example/vase.jpg' };

const step = (who: string, type: string, product: Product, day: number, more: object = {}) => ({
  ...{ event_id: newEventId(at(day)), type, origin: 'item', profile_id: who, occurred_at: at(day) },
  ...PRODUCTS[product],
  payload: {
    productTitle: PRODUCTS[product].product_handle,
    image: IMAGES[PRODUCTS[product].product_handle],
  },
  ...more,
});
const add = (who: string, product: Product, day: number, price = '', currency = '', more: object = {}) =>
  step(who, 'add', product, day, {
    ...(price === '' ? {} : { price, currency }),
    ...{ source: 'pdp', inventory_available: true, ...more },
  });
const bought = (who: string, product: Product, day: number, orderId: string, amount: string) => {
  const { product_id: productId, variant_id: variantId } = PRODUCTS[product];
  const stated = { line: product, orderId, productId, variantId, quantity: 1, price: amount, amount };
  return orderRow({ ...stated, currency: 'USD' }, { occurred_at: at(day), profile_id: who });
};
const share = (who: string, day: number, share_code: string, channel: string) => ({
  ...{ event_id: newEventId(at(day)), type: 'share', origin: 'share', profile_id: who, occurred_at: at(day) },
  ...{ share_code, channel, payload: {} },
});

const SOLD_OUT = { inventory_available: false };
const SMART = { source: 'pdpSmartSave' };
const FROM_LIST = { source: 'wishlist' };

const ROWS = [
  add('7.sida', 'lamp', -1, '30.00', 'EUR'),
  add('7.cada', 'lamp', 2, '40.00', 'EUR', { ...SOLD_OUT, quantity: 2 }),
  add('7.sben', 'lamp', 3, '50.00', 'USD', SOLD_OUT),
  add('7.scat', 'large', 4, '45.00', 'EUR'),
  add('7.cada', 'large', 5, '44.00', 'EUR', SOLD_OUT),
  add('7.sdan', 'lamp', 6, '36.00', 'EUR', SMART),
  step('7.sdan', 'remove', 'lamp', 6, { occurred_at: at(6, 13) }),
  add('7.seve', 'vase', 6, '3000.00', 'JPY'),
  step('7.seve', 'remove', 'vase', 7),
  add('7.sfay', 'vase', 7),
  add('7.seve', 'vase', 8, '3000.00', 'JPY'),
  add('7.sgus', 'vase', 8, '20.00', 'USD', SMART),
  add('7.shal', 'vase', 8, '20.00', 'USD', SMART),
  bought('7.sgus', 'vase', 9, 'june1', '20.00'),
  add('7.shal', 'lamp', 10, '36.00', 'EUR', FROM_LIST),
  step('7.shal', 'moveToCart', 'lamp', 10, { occurred_at: at(10, 13) }),
  add('7.sjoy', 'vase', 11, '20.00', 'USD', FROM_LIST),
  bought('7.sjoy', 'vase', 12, 'june2', '20.00'),
  share('7.cada', 2, 'june-a', 'Link'),
  share('7.cada', 3, 'june-a', 'Email'),
  share('7.sben', 3, 'june-b', 'Link'),
  share('7.seve', 9, 'june-c', 'Link'),
];

export async function plantJune(client: ClickHouseClient): Promise<void> {
  const lines = ROWS.map((row) => `${JSON.stringify(row)}\n`).join('');
  const merge = encodeMerge(newEventId(at(9)), at(9), '7.scat', { into: '7.ccat', isNew: true });
  const opens = (['june-a', 'june-a', 'june-b', 'may'] as const).map((code, i) =>
    encodeShareOpen('7.cada', code, at(10, i)),
  );
  const all = Buffer.from(lines + merge + opens.join(''));
  // Stored twice, as after a crash.
  for (let i = 0; i < 2; i++) await insertEvents(client, all, new AbortController().signal);
}

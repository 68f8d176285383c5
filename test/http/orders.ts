// Helpers for tests of purchases: orders, deliveries, and wishlists with items to buy.

import { createHmac } from 'node:crypto';
import { type TestApp, TRUSTED } from '../harness/app.js';
import type { Headers } from '../harness/client.js';
import type { Ids, Row } from '../harness/stream.js';

export const PATH = '/webhook/purchase';
export const SECRET = 'hush-hush-hush-hush';
export const JSON_TYPE = { 'content-type': 'application/json' };

export const sign = (body: string | Buffer, secret = SECRET) =>
  createHmac('sha256', secret).update(body).digest('base64');

let deliveries = 0;

/** Delivers as Shopify does. The body may be text, for numbers that JavaScript can't hold. */
export function deliver(
  app: TestApp,
  order: object | string,
  id = `delivery-${++deliveries}`,
  headers: Headers = {},
) {
  const body = typeof order === 'string' ? order : JSON.stringify(order);
  return app.post(PATH, body, {
    ...JSON_TYPE,
    'x-shopify-topic': 'orders/paid',
    'x-shopify-hmac-sha256': sign(body),
    ...(id === '' ? {} : { 'x-shopify-webhook-id': id }),
    ...headers,
  });
}

const LINE = { quantity: 1, price: '79.90' };
let orders = 1_000;
export const orderOf = (customer: unknown, lines: readonly object[], rest: object = {}) => ({
  id: ++orders,
  customer,
  currency: 'EUR',
  line_items: lines.map((line) => ({ ...LINE, ...line })),
  ...rest,
});

export const listed = async (app: TestApp, identity: object): Promise<[string, string | null][]> =>
  (await app.shop.items(identity)).map(({ productId, variantId }) => [productId, variantId]);

export async function add(app: TestApp, identity: object, ...ids: [string, string | null][]): Promise<void> {
  for (const [productId, variantId] of ids) await app.shop.add(identity, { productId, variantId });
}

export const switchTo = (app: TestApp, autoRemoveAfterPurchase: boolean) =>
  app.send('PUT', '/settings', { autoRemoveAfterPurchase }, TRUSTED);

export const purchasesOf = async (app: TestApp, who: Ids) =>
  (await app.events(who)).filter(({ type }) => type === 'autoRemoveAfterPurchase');

export const linesOf = async (app: TestApp, order: { readonly id: unknown }): Promise<Row[]> =>
  (await app.rows())
    .filter(({ origin, order_id }) => origin === 'order' && order_id === String(order.id))
    .map((row) => ({ ...row, ...JSON.parse(String(row['payload'])) }));

export const sessionNote = (value: string) => [{ name: 'wishlist_session_id', value }];

interface Line {
  readonly product_id: number | null;
  readonly variant_id: number | null;
  readonly quantity?: number;
  readonly price?: string;
}

/** An order with Shopify's fields that matter. A guest's order has a customer, too, whose account is disabled. */
export function shopifyOrder(
  who: { readonly customer?: number; readonly session?: string; readonly email?: string },
  lines: readonly Line[],
  rest: object = {},
) {
  const id = 5_400_000_000_000 + ++orders;
  const { customer, session, email = customer === undefined ? null : `c${customer}@shop.example` } = who;
  return {
    id,
    cancelled_at: null,
    contact_email: email,
    created_at: new Date().toISOString(),
    currency: 'EUR',
    presentment_currency: 'USD',
    email,
    financial_status: 'paid',
    note_attributes: session === undefined ? [] : [{ name: 'gift', value: 'no' }, ...sessionNote(session)],
    test: false,
    customer: customer === undefined ? null : { id: customer, email, state: 'disabled', first_name: 'Ada' },
    line_items: lines.map((line, i) => ({
      ...{ ...LINE, id: id * 10 + i, current_quantity: line.quantity ?? LINE.quantity },
      ...{ total_discount: '0.00', discount_allocations: [], ...line },
    })),
    ...rest,
  };
}

// The columns of the views `events`, `purchases` and `product_alerts`. The views and a visitor's
// export are made of these lists. src/events/row.ts does not compile without one of PAYLOAD_COLUMNS.

/** Columns that are taken from an event's payload: its field -> the column. */
export const PAYLOAD_COLUMNS = {
  productId: 'product_id',
  variantId: 'variant_id',
  productHandle: 'product_handle',
  source: 'source',
  channel: 'channel',
  shareCode: 'share_code',
  currencyCode: 'currency',
  inventoryAvailable: 'inventory_available',
  quantity: 'quantity',
  price: 'price',
  compareAt: 'compare_at',
} as const;

export type PayloadColumn = (typeof PAYLOAD_COLUMNS)[keyof typeof PAYLOAD_COLUMNS];

/** Stored with a dictionary; analysts have them as they have all texts of a payload. */
const PLAIN: readonly string[] = ['source', 'channel'] satisfies PayloadColumn[];

const EVENTS = [
  'event_id',
  'type',
  'occurred_at',
  'profile_id',
  'customer_id',
  'session_id',
  'device',
  'locale',
  'origin',
  ...Object.values(PAYLOAD_COLUMNS).map((name) =>
    PLAIN.includes(name) ? `CAST(${name}, 'String') AS ${name}` : name,
  ),
  'payload',
];

const PURCHASES = [
  'occurred_at',
  'updated_at',
  'order_id',
  'profile_id',
  'customer_id',
  'session_id',
  'product_id',
  'variant_id',
  'quantity',
  'price',
  'discount',
  'amount',
  'currency',
  'test',
];

const ALERTS = [
  'occurred_at',
  'type',
  'profile_id',
  'customer_id',
  'session_id',
  'product_id',
  'variant_id',
  'product_handle',
  "toDecimal64OrNull(JSONExtractString(payload, 'priceBefore'), 2) AS price_before",
  'price',
  'currency',
];

/** Rows that travel with the events and are none: merges of profiles, statements of order lines, openings of shared wishlists, product alerts, told products, adoptions. */
export const IS_EVENT = "origin NOT IN ('merge', 'order', 'open', 'alert', 'product', 'adoption')";

/** As a SELECT has them. */
export const EVENT_COLUMNS = EVENTS.join(',\n    ');
export const PURCHASE_COLUMNS = PURCHASES.join(',\n    ');
export const ALERT_COLUMNS = ALERTS.join(',\n    ');

// The columns that views and exports select, and the fields of a payload that become columns.

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

export const IS_EVENT = "origin NOT IN ('merge', 'order', 'open', 'alert', 'product')";

export const EVENT_COLUMNS = EVENTS.join(',\n    ');
export const PURCHASE_COLUMNS = PURCHASES.join(',\n    ');
export const ALERT_COLUMNS = ALERTS.join(',\n    ');

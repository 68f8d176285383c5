// The columns of the views `events` and `purchases`, whose rows are in one table, events_stored. The views and a visitor's
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
  ...Object.values(PAYLOAD_COLUMNS),
  'payload',
];

const PURCHASES = [
  'occurred_at',
  'order_id',
  'profile_id',
  'customer_id',
  'session_id',
  'product_id',
  'variant_id',
  'assumeNotNull(quantity) AS quantity',
  'price',
  'discount',
  'amount',
  'currency',
  'test',
];

/** As a SELECT has them. */
export const EVENT_COLUMNS = EVENTS.join(',\n    ');
export const PURCHASE_COLUMNS = PURCHASES.join(',\n    ');

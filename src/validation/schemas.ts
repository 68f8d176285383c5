// The JSON Schemas of what clients send, as data. The validator compiles them, /openapi.json publishes them.
// `format` names a rule of src/validation/validator.ts, `maxBytes` counts UTF-8, `maxLevels` counts objects and
// lists within each other, `blankIsNull` is of the fields that may be null, `someNonNull` names fields of which at least one must be there and not null.

const EVENT_TYPES = ['add', 'remove', 'moveToCart', 'share', 'autoRemoveAfterPurchase'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** A Shopify id: text, a gid, or an integer that JSON.parse has not rounded. */
const shopifyId = { minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
const customerId = { type: ['string', 'integer', 'null'], format: 'customer-id', ...shopifyId } as const;
const sessionId = { type: ['string', 'null'], format: 'session-id' } as const;
const text = (maxBytes: number) => ({ type: ['string', 'null'], format: 'plain-text', maxBytes }) as const;

export const identity = {
  type: 'object',
  blankIsNull: true,
  someNonNull: ['customerId', 'sessionId'],
  properties: {
    customerId: { ...customerId, description: 'Signed-in customer' },
    sessionId: { ...sessionId, description: 'Guest session' },
    device: text(64),
    locale: text(64),
    email: { type: ['string', 'null'], format: 'e-mail', maxBytes: 320 },
    firstName: text(255),
    lastName: text(255),
  },
} as const;

const productHandle = { type: 'string', format: 'product-handle' } as const;

export const visitBody = {
  type: 'object',
  required: ['identity', 'productHandle'],
  properties: { identity, productHandle },
} as const;

/** Visits that one request may bring. */
export const MAX_VISITS = 500;

export const visitBatchBody = {
  type: 'object',
  required: ['visits'],
  properties: { visits: { type: 'array', minItems: 1, maxItems: MAX_VISITS, items: visitBody } },
} as const;

/** Products whose counts one request may ask for. */
export const MAX_HANDLES = 100;

export const visitListBody = {
  type: 'object',
  required: ['identity', 'productHandles'],
  properties: {
    identity,
    productHandles: { type: 'array', minItems: 1, maxItems: MAX_HANDLES, items: productHandle },
  },
} as const;

/** The same by query: GET, and DELETE where a proxy dropped the body. */
export const visitQuery = {
  type: 'object',
  required: ['productHandle'],
  someNonNull: ['customerId', 'sessionId'],
  properties: {
    customerId: { type: 'string', format: 'customer-id' },
    sessionId: { type: 'string', format: 'session-id' },
    device: text(64),
    productHandle,
  },
} as const;

const freeForm = {
  type: 'object',
  // JSON.stringify recurses, and ends in an exception at some 5,000 levels.
  maxLevels: 1_000,
  additionalProperties: true,
  description: 'Free-form, at most 16 KiB; numbers of more than 15 digits lose some: send them as text',
} as const;

export const eventBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity', 'type'],
  properties: {
    identity,
    type: { type: 'string', enum: EVENT_TYPES },
    payload: { ...freeForm, type: ['object', 'null'] },
  },
} as const;

const ITEM_SOURCES = ['pdp', 'collection', 'cart', 'wishlist', 'email', 'pdpSmartSave', 'other'] as const;
const CHANNELS = ['Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'] as const;
export type Channel = (typeof CHANNELS)[number];

const productId = { type: ['string', 'integer'], format: 'product-id', ...shopifyId } as const;
const variantId = { type: ['string', 'integer', 'null'], format: 'variant-id', ...shopifyId } as const;
const title = { type: 'string', format: 'title', maxBytes: 1_024 } as const;
const optional = <const T extends string>(allowed: readonly T[], absent: T) =>
  ({ type: ['string', 'null'], enum: [...allowed, null], default: absent }) as const;
/** What UInt32 holds. */
const MAX_QUANTITY = 0xffff_ffff;

export const itemAddBody = {
  type: 'object',
  blankIsNull: true,
  required: [
    'identity',
    'productId',
    'productTitle',
    'productHandle',
    'price',
    'compareAt',
    'inventoryAvailable',
    'quantity',
  ],
  properties: {
    identity,
    productId,
    variantId,
    productHandle,
    productTitle: title,
    variantTitle: { ...title, type: ['string', 'null'] },
    image: text(2_048),
    price: { type: 'string', format: 'price' },
    compareAt: { type: ['string', 'null'], format: 'price' },
    inventoryAvailable: { type: 'boolean' },
    quantity: { type: 'integer', minimum: 1, maximum: MAX_QUANTITY },
    currencyCode: { type: ['string', 'null'], format: 'currency-code' },
    countryCode: { type: ['string', 'null'], format: 'country-code' },
    properties: { ...freeForm, type: ['object', 'null'] },
    source: optional(ITEM_SOURCES, 'pdp'),
  },
} as const;

export const itemRemoveBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity', 'productId'],
  properties: {
    identity,
    productId,
    variantId,
    event: optional(['remove', 'moveToCart'], 'remove'),
  },
} as const;

export const itemListBody = {
  type: 'object',
  required: ['identity'],
  properties: { identity },
} as const;

export const shareBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity'],
  properties: { identity, channel: optional(CHANNELS, 'Link') },
} as const;

const givenSessionId = { ...sessionId, type: 'string' } as const;

/** Whose profile it is, in a query. */
export const profileQuery = {
  type: 'object',
  someNonNull: ['customerId', 'sessionId', 'email'],
  properties: {
    customerId: { type: 'string', format: 'customer-id' },
    sessionId: { type: 'string', format: 'session-id' },
    email: { type: 'string', format: 'e-mail', maxBytes: 320 },
  },
} as const;

/** Whose profile it is, in a body. */
export const profileBody = {
  type: 'object',
  required: ['identity'],
  properties: { identity: { ...identity, someNonNull: ['customerId', 'sessionId', 'email'] } },
} as const;

/** An identity, flat. */
export const guestBody = {
  type: 'object',
  blankIsNull: true,
  required: ['sessionId'],
  properties: { ...identity.properties, sessionId: givenSessionId },
} as const;

export const mergeBody = {
  type: 'object',
  required: ['identity'],
  properties: {
    identity: {
      type: 'object',
      blankIsNull: true,
      required: ['customerId', 'sessionId'],
      properties: {
        ...identity.properties,
        customerId: { ...customerId, type: ['string', 'integer'] },
        sessionId: givenSessionId,
      },
    },
  },
} as const;

export const settingsBody = {
  type: 'object',
  required: ['autoRemoveAfterPurchase'],
  properties: { autoRemoveAfterPurchase: { type: 'boolean' } },
} as const;

/** Of Shopify's compliance webhooks: what each has is read as it comes. */
export const complianceBody = {
  type: 'object',
  additionalProperties: true,
  properties: {},
} as const;

/** Of Shopify's Order, what is needed; the rest is read as it comes. */
export const orderBody = {
  type: 'object',
  additionalProperties: true,
  required: ['id', 'line_items'],
  properties: {
    id: { type: ['integer', 'string'], minimum: 1, format: 'order-id' },
    line_items: { type: 'array', items: {} },
  },
} as const;

// The JSON Schemas of what clients send, as data. The validator compiles them, /openapi.json publishes them.
// `format` names a rule of src/validation/validator.ts, `maxBytes` counts UTF-8, `maxLevels` counts objects and
// lists within each other, `someNonNull` names fields of which at least one must be there and not null.

export const EVENT_TYPES = ['add', 'remove', 'moveToCart', 'share', 'autoRemoveAfterPurchase'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

const visitorId = { type: ['string', 'null'], format: 'visitor-id' } as const;
const text = (maxBytes: number) => ({ type: ['string', 'null'], format: 'plain-text', maxBytes }) as const;

export const identity = {
  type: 'object',
  someNonNull: ['customerId', 'sessionId'],
  properties: {
    customerId: { ...visitorId, description: 'Signed-in customer' },
    sessionId: { ...visitorId, description: 'Guest session' },
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

/** The same by query: GET, and DELETE where a proxy dropped the body. */
export const visitQuery = {
  type: 'object',
  required: ['productHandle'],
  someNonNull: ['customerId', 'sessionId'],
  properties: {
    customerId: visitorId,
    sessionId: visitorId,
    device: text(64),
    productHandle,
  },
} as const;

export const eventBody = {
  type: 'object',
  required: ['identity', 'type'],
  properties: {
    identity,
    type: { type: 'string', enum: EVENT_TYPES },
    // JSON.stringify recurses, and ends in an exception at some 5,000 levels.
    payload: { type: 'object', maxLevels: 1_000, description: 'Free-form, at most 16 KiB' },
  },
} as const;

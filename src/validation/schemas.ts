// JSON Schemas of requests. The validator compiles them, /openapi.json publishes them. `blankIsNull` turns blank texts
// of nullable fields into null; `someNonNull` names fields of which at least one must not be null.

import { PAYLOAD_COLUMNS } from '../clickhouse/columns.js';
import {
  boolean,
  currencyCode,
  freeForm,
  oneOf,
  plainText,
  price,
  priceOrNull,
  productHandle,
  productId,
  shopifyId,
  title,
  variantId,
} from '../field-schemas.js';
import { CHANNELS } from '../known-words.js';
import { fieldSchemas, REQUIRED_FIELDS } from '../wishlist/item-fields.js';

export const EVENT_TYPES = ['add', 'remove', 'moveToCart', 'share', 'autoRemoveAfterPurchase'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

const customerId = { type: ['string', 'integer', 'null'], format: 'customer-id', ...shopifyId } as const;
const sessionId = { type: ['string', 'null'], format: 'session-id' } as const;

export const identity = {
  type: 'object',
  blankIsNull: true,
  someNonNull: ['customerId', 'sessionId'],
  properties: {
    customerId: { ...customerId, description: 'Signed-in customer' },
    sessionId: { ...sessionId, description: 'Guest session' },
    device: plainText(64),
    locale: plainText(64),
    email: { type: ['string', 'null'], format: 'e-mail', maxBytes: 320 },
    firstName: plainText(255),
    lastName: plainText(255),
  },
} as const;

export const visitBody = {
  type: 'object',
  required: ['identity', 'productHandle'],
  properties: { identity, productHandle },
} as const;

const MAX_VISITS = 500;

export const visitBatchBody = {
  type: 'object',
  required: ['visits'],
  properties: { visits: { type: 'array', minItems: 1, maxItems: MAX_VISITS, items: visitBody } },
} as const;

const MAX_HANDLES = 100;

export const visitListBody = {
  type: 'object',
  required: ['identity', 'productHandles'],
  properties: {
    identity,
    productHandles: { type: 'array', minItems: 1, maxItems: MAX_HANDLES, items: productHandle },
  },
} as const;

export const visitQuery = {
  type: 'object',
  required: ['productHandle'],
  someNonNull: ['customerId', 'sessionId'],
  properties: {
    customerId: { type: 'string', format: 'customer-id' },
    sessionId: { type: 'string', format: 'session-id' },
    device: plainText(64),
    productHandle,
  },
} as const;

export const eventBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity', 'type'],
  properties: {
    identity,
    type: { type: 'string', enum: EVENT_TYPES },
    payload: {
      ...freeForm,
      description: `${freeForm.description}. Analysts have these fields as columns: ${Object.keys(PAYLOAD_COLUMNS).join(', ')}`,
    },
  },
} as const;

export type Channel = (typeof CHANNELS)[number];

export const itemAddBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity', ...REQUIRED_FIELDS],
  properties: { identity, ...fieldSchemas('given') },
} as const;

export const itemRemoveBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity', 'productId'],
  properties: {
    identity,
    productId,
    variantId,
    event: oneOf(['remove', 'moveToCart'], 'remove'),
  },
} as const;

export const itemListBody = {
  type: 'object',
  required: ['identity'],
  properties: { identity },
} as const;

const MAX_CHECKED = 250;

export const itemCheckBody = {
  type: 'object',
  required: ['identity', 'products'],
  properties: {
    identity,
    products: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_CHECKED,
      items: {
        type: 'object',
        blankIsNull: true,
        required: ['productId'],
        properties: {
          productId,
          variantId: { ...variantId, description: 'Without it any variant of the product' },
        },
      },
    },
  },
} as const;

export const shareBody = {
  type: 'object',
  blankIsNull: true,
  required: ['identity'],
  properties: { identity, channel: oneOf(CHANNELS, 'Link') },
} as const;

const givenSessionId = { ...sessionId, type: 'string' } as const;

export const profileQuery = {
  type: 'object',
  someNonNull: ['customerId', 'sessionId', 'email'],
  properties: {
    customerId: { type: 'string', format: 'customer-id' },
    sessionId: { type: 'string', format: 'session-id' },
    email: { type: 'string', format: 'e-mail', maxBytes: 320 },
  },
} as const;

export const profileBody = {
  type: 'object',
  required: ['identity'],
  properties: { identity: { ...identity, someNonNull: ['customerId', 'sessionId', 'email'] } },
} as const;

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
  properties: { autoRemoveAfterPurchase: boolean },
} as const;

/** Shopify's maximum per product. */
const MAX_VARIANTS = 2_048;

export const productBody = {
  type: 'object',
  blankIsNull: true,
  required: ['productId', 'productHandle', 'productTitle', 'variants'],
  properties: {
    productId,
    productHandle,
    productTitle: title,
    isPublished: {
      type: ['boolean', 'null'],
      default: true,
      description: 'While it is false nobody is told anything of the product',
    },
    variants: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_VARIANTS,
      items: {
        type: 'object',
        blankIsNull: true,
        required: ['price', 'inventoryAvailable'],
        properties: {
          variantId: { ...variantId, description: 'Null or absent of a product without variants' },
          price,
          compareAt: priceOrNull,
          currencyCode,
          inventoryAvailable: boolean,
        },
      },
    },
  },
} as const;

/** The required parts of Shopify's Product. */
export const shopifyProductBody = {
  type: 'object',
  additionalProperties: true,
  required: ['id', 'handle', 'title', 'variants'],
  properties: {
    id: productId,
    handle: productHandle,
    title,
    variants: { type: 'array', items: {} },
  },
} as const;

/** Shopify's compliance webhooks: all fields are optional. */
export const complianceBody = {
  type: 'object',
  additionalProperties: true,
  properties: {},
} as const;

const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const;
const orderAmount = { type: ['string', 'number'], format: 'amount', minimum: 0 } as const;
const orderAmountOrNull = { ...orderAmount, type: ['string', 'number', 'null'] } as const;
const pieces = {
  type: ['integer', 'string', 'null'],
  format: 'pieces',
  minimum: 0,
  maximum: 0xffff_ffff,
} as const;

const FINANCIAL_STATUS = [
  'authorized',
  'expired',
  'paid',
  'partially_paid',
  'partially_refunded',
  'pending',
  'refunded',
  'unpaid',
  'voided',
] as const;

const orderLine = {
  type: 'object',
  blankIsNull: true,
  required: ['product_id', 'price'],
  properties: {
    id: { ...shopifyId, type: ['string', 'integer', 'null'], description: 'Names the line within its order' },
    product_id: productId,
    variant_id: variantId,
    quantity: { ...pieces, description: 'As ordered', default: 1 },
    current_quantity: {
      ...pieces,
      description: 'What is left after edits and refunds; `quantity` if absent',
    },
    price: { ...orderAmount, description: 'Of one' },
    discount_allocations: {
      type: ['array', 'null'],
      items: { type: 'object', required: ['amount'], properties: { amount: orderAmount } },
      description: 'Discounts of the line as ordered, with its part of those of the order',
    },
    total_discount: {
      ...orderAmountOrNull,
      description: 'Counts if `discount_allocations` is absent or empty',
    },
  },
} as const;

/** The fields of Shopify's Order that we read. */
export const orderBody = {
  type: 'object',
  additionalProperties: true,
  blankIsNull: true,
  required: ['id', 'currency', 'line_items'],
  properties: {
    id: { ...shopifyId, type: ['integer', 'string'], format: 'order-id' },
    currency: { type: 'string', format: 'order-currency', description: "The shop's, of all amounts" },
    financial_status: { type: ['string', 'null'], enum: [...FINANCIAL_STATUS, null] },
    cancelled_at: timeOrNull,
    processed_at: { ...timeOrNull, description: 'When it was bought' },
    created_at: { ...timeOrNull, description: 'Counts if `processed_at` is absent' },
    updated_at: { ...timeOrNull, description: 'The version of the order: the newest counts' },
    test: { type: ['boolean', 'null'], default: false },
    email: { description: 'An e-mail address, or null' },
    contact_email: { description: 'Counts if `email` is absent' },
    customer: {
      type: ['object', 'null'],
      blankIsNull: true,
      properties: { id: customerId, email: { description: 'Counts before the address of the order' } },
    },
    note_attributes: {
      type: ['array', 'null'],
      description: '`[{"name", "value"}]`: the `value` of the one named `wishlist_session_id` is the session',
      items: {},
    },
    // Ten times Shopify's maximum.
    line_items: { type: 'array', maxItems: 5_000, items: orderLine },
  },
} as const;

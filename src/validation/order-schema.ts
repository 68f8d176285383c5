// JSON Schema of Shopify's order webhooks; see schemas.ts.

import { productId, shopifyId, variantId } from '../field-schemas.js';
import { customerId } from './schemas.js';

const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const;
const orderAmount = {
  type: ['string', 'number'],
  format: 'amount',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
} as const;
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

export const orderBody = {
  type: 'object',
  additionalProperties: true,
  blankIsNull: true,
  required: ['id', 'line_items'],
  properties: {
    id: { ...shopifyId, type: ['integer', 'string'], format: 'order-id' },
    currency: {
      type: ['string', 'null'],
      format: 'order-currency',
      description: "The shop's, of all amounts; `SHOP_CURRENCY` if absent",
    },
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

// JSON Schemas of requests, which the validator compiles and /openapi.json shows. `blankIsNull` turns blank texts
// of nullable fields into null; `someNonNull` names fields of which at least one must not be null.

import { PAYLOAD_COLUMNS } from '../clickhouse/columns.js';
import {
  boolean,
  freeForm,
  oneOf,
  plainText,
  productHandle,
  productId,
  shopifyId,
  variantId,
} from '../field-schemas.js';
import { fieldSchemas, REQUIRED_FIELDS } from '../item-fields.js';
import { CHANNELS } from '../known-words.js';

export const EVENT_TYPES = ['add', 'remove', 'moveToCart', 'share', 'autoRemoveAfterPurchase'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export const customerId = {
  type: ['string', 'integer', 'null'],
  format: 'customer-id',
  ...shopifyId,
} as const;
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

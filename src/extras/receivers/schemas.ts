// JSON Schemas of /receivers, for validation and for /openapi.json.

import { boolean, text, textOrNull, time, timeOrNull, word } from '../../field-schemas.js';
import { answerOf } from '../../http/answer-schemas.js';
import { DELIVERY_TYPES, EVERY_TYPE } from './receiver.js';

const receiverUrl = {
  type: 'string',
  maxBytes: 2_048,
  description:
    '`https:`, at a host that resolves to public addresses only (see RECEIVERS_PRIVATE), without user and password',
} as const;
const receiverTypes = {
  type: 'array',
  minItems: 1,
  maxItems: 2 * DELIVERY_TYPES.length,
  items: { type: 'string', enum: [...DELIVERY_TYPES, EVERY_TYPE] },
  description: 'What it is sent; `*` alone is everything',
} as const;

export const receiverBody = {
  type: 'object',
  required: ['url', 'types'],
  properties: {
    url: receiverUrl,
    types: receiverTypes,
    includePersonal: {
      ...boolean,
      description: 'Whether it is sent e-mail addresses and names',
      default: false,
    },
  },
} as const;

export const receiverChangeBody = {
  type: 'object',
  properties: {
    url: receiverUrl,
    types: receiverTypes,
    isEnabled: { ...boolean, description: 'While it is false deliveries wait' },
    rotateSecret: { ...boolean, description: 'Makes a new secret; the old one signs beside it for 24 h' },
  },
} as const;

const receiverFields = {
  id: text,
  url: text,
  types: { type: 'array', items: word([...DELIVERY_TYPES, EVERY_TYPE]) },
  includePersonal: boolean,
  isEnabled: { ...boolean, description: 'False once it was paused, answered 410 or failed for five days' },
  createdAt: time,
  pending: { type: 'integer', minimum: 0, description: 'Deliveries that wait for it' },
  lastSuccessAt: timeOrNull,
  lastFailureAt: timeOrNull,
  lastError: textOrNull,
} as const;
const secret = { type: 'string', description: 'Only where it was made by this request' } as const;

export const receiver = answerOf(receiverFields);
export const createdReceiverAnswer = answerOf({ ...receiverFields, secret });
export const changedReceiverAnswer = {
  ...receiver,
  properties: { ...receiverFields, secret },
} as const;
export const receiverListAnswer = answerOf({ receivers: { type: 'array', items: receiver } });
export const deletedAnswer = answerOf({ deleted: { ...boolean, enum: [true] } });
export const receiverTestAnswer = {
  type: 'object',
  properties: {
    status: { type: 'integer', description: "Of the receiver's answer" },
    error: { type: 'string', description: 'Why there was no answer' },
  },
} as const;

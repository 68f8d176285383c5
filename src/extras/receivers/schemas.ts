// JSON Schemas of /receivers, for validation and for /openapi.json.

import type { Issue } from '../../errors.js';
import { answerOf, boolean, text, textOrNull, time, timeOrNull, word } from '../../field-schemas.js';
import { compile } from '../../validation/validator.js';
import type { Addresses } from './address.js';
import { DELIVERY_TYPES, EVERY_TYPE, type NewReceiver, type ReceiverChange } from './receiver.js';

const type = word([...DELIVERY_TYPES, EVERY_TYPE]);
const url = {
  type: 'string',
  maxBytes: 2_048,
  description:
    '`https:`, at a host that resolves to public addresses only (see RECEIVERS_PRIVATE), without user and password',
} as const;
const types = {
  type: 'array',
  minItems: 1,
  maxItems: 2 * DELIVERY_TYPES.length,
  items: type,
  description: 'What it is sent; `*` alone is everything',
} as const;
const personal = 'Whether it is sent e-mail addresses and names';

export const receiverBody = {
  type: 'object',
  required: ['url', 'types'],
  properties: { url, types, includePersonal: { ...boolean, description: personal, default: false } },
} as const;

export const receiverChangeBody = {
  type: 'object',
  properties: {
    url,
    types,
    isEnabled: { ...boolean, description: 'While it is false deliveries wait' },
    rotateSecret: { ...boolean, description: 'Makes a new secret; the old one signs beside it for 24 h' },
  },
} as const;

const receiverFields = {
  id: text,
  url: text,
  types: { type: 'array', items: type },
  includePersonal: boolean,
  isEnabled: { ...boolean, description: 'False once it was paused, answered 410 or failed for five days' },
  createdAt: time,
  pending: { type: 'integer', minimum: 0, description: 'Deliveries that wait for it' },
  lastSuccessAt: timeOrNull,
  lastFailureAt: timeOrNull,
  lastError: textOrNull,
} as const;
const secret = { type: 'string', description: 'Only if this request made it' } as const;

export const receiver = answerOf(receiverFields);
export const createdReceiverAnswer = answerOf({ ...receiverFields, secret });
export const changedReceiverAnswer = { ...receiver, properties: { ...receiverFields, secret } } as const;
export const receiverListAnswer = answerOf({ receivers: { type: 'array', items: receiver } });
export const deletedAnswer = answerOf({ deleted: { ...boolean, enum: [true] } });
export const receiverTestAnswer = {
  type: 'object',
  properties: {
    status: { type: 'integer', description: "Of the receiver's answer" },
    error: { type: 'string', description: 'Why there was no answer' },
  },
} as const;

const checkReceiver = compile<Omit<NewReceiver, 'includePersonal'> & Partial<NewReceiver>>(receiverBody);
const checkReceiverChange = compile<ReceiverChange>(receiverChangeBody);

export function readReceiver(body: unknown, addresses: Addresses): NewReceiver {
  const { url, types, includePersonal = false } = checkReceiver(body, faultsOf(body, addresses));
  return { url, types: [...new Set(types)], includePersonal };
}

export function readReceiverChange(body: unknown, addresses: Addresses): ReceiverChange {
  const { url, types, isEnabled, rotateSecret } = checkReceiverChange(body, faultsOf(body, addresses));
  return { url, types: types && [...new Set(types)], isEnabled, rotateSecret };
}

/** Faults beyond the schemas. */
function faultsOf(body: unknown, addresses: Addresses): Issue[] {
  const { url, types } = (body ?? {}) as { readonly url?: unknown; readonly types?: unknown };
  const faults: Issue[] = [];
  try {
    if (typeof url === 'string') addresses.parse(url);
  } catch (error) {
    faults.push({ in: 'body', path: '/url', message: (error as Error).message });
  }
  if (Array.isArray(types) && types.length > 1 && types.includes(EVERY_TYPE))
    faults.push({ in: 'body', path: '/types', message: 'must be `*` alone, or a list of types' });
  return faults;
}

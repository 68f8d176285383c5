// The `webhooks` of /openapi.json.

import {
  answerOf,
  boolean,
  decimalText,
  decimalTextOrNull,
  id,
  idOrNull,
  text,
  textOrNull,
  time,
  word,
} from '../../field-schemas.js';
import { EVENT_TYPES } from '../../validation/schemas.js';
import { ALERT_TYPES } from '../alerts/alert.js';

const visitor = { profileId: text, customerId: idOrNull, sessionId: textOrNull };
const PERSONAL = {
  email: { ...textOrNull, description: 'Only with includePersonal, like the names' },
  firstName: textOrNull,
  lastName: textOrNull,
};
const dataOf = (fields: Record<string, object>) => ({
  ...answerOf(fields),
  properties: { ...fields, ...PERSONAL },
});

const event = dataOf({
  eventId: text,
  occurredAt: time,
  ...visitor,
  device: text,
  locale: text,
  payload: { type: 'object', additionalProperties: true },
});

const purchase = dataOf({
  occurredAt: time,
  updatedAt: { ...time, description: "The order's: its newest statement counts" },
  orderId: text,
  ...visitor,
  productId: id,
  variantId: { ...id, description: 'Empty if the line has none' },
  quantity: { type: 'integer', minimum: 0, description: '0: the line was cancelled' },
  price: decimalTextOrNull,
  discount: decimalText,
  amount: { ...decimalTextOrNull, description: 'Price paid for the line' },
  currency: text,
  test: boolean,
});

const alert = dataOf({
  ...visitor,
  productId: id,
  variantId: idOrNull,
  productHandle: text,
  productTitle: text,
  priceBefore: { ...decimalText, description: 'The price when the product was saved' },
  price: decimalText,
  currencyCode: textOrNull,
});

const HEADERS = {
  'webhook-id': 'The same at each attempt',
  'webhook-timestamp': 'Seconds since 1970, of this attempt',
  'webhook-signature':
    '`v1,` and the base64 HMAC-SHA256 of id, timestamp and body; several are separated by spaces',
};
const parameters = Object.entries(HEADERS).map(([name, description]) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: text,
}));
const FAILED = { description: 'Failed: it is sent again later' };
const responses = {
  '2XX': { description: 'Received' },
  '410': { description: 'No longer wanted: the receiver is disabled' },
  '4XX': FAILED,
  '5XX': FAILED,
};

function webhook(operationId: string, summary: string, types: readonly string[], data: object): object {
  const schema = answerOf({ type: word(types), timestamp: time, data });
  const requestBody = { required: true, content: { 'application/json': { schema } } };
  const security: [] = [];
  return {
    post: { operationId, tags: ['Receivers'], summary, security, parameters, requestBody, responses },
  };
}

export const WEBHOOKS = {
  event: webhook('onEvent', 'A wishlist event', EVENT_TYPES, event),
  purchase: webhook('onPurchase', 'A line of an order', ['purchase'], purchase),
  alert: webhook('onAlert', 'A price drop or a restock of a saved product', ALERT_TYPES, alert),
  test: webhook('onTest', 'A test, sent by `POST /receivers/{id}/test`', ['test'], { type: 'object' }),
};

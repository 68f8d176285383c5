// The `webhooks` of /openapi.json: what receivers are sent. Schemas only; src/receivers/message.ts makes the bodies.

import {
  boolean,
  decimalText,
  decimalTextOrNull,
  id,
  idOrNull,
  text,
  textOrNull,
  time,
} from '../field-schemas.js';
import { ALERT_TYPES } from '../products/alert.js';
import { EVENT_TYPES } from '../validation/schemas.js';
import { answerOf } from './answer-schemas.js';

const visitor = { profileId: text, customerId: idOrNull, sessionId: textOrNull };
const PERSONAL = {
  email: { ...textOrNull, description: 'Only with includePersonal, like the names' },
  firstName: textOrNull,
  lastName: textOrNull,
};

/** With what only some receivers are sent, which is not required. */
const dataOf = (properties: Record<string, object>) => {
  const all = answerOf(properties);
  return { ...all, properties: { ...all.properties, ...PERSONAL } };
};

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
  updatedAt: { ...time, description: 'Of the order: its newest statement counts' },
  orderId: text,
  ...visitor,
  productId: id,
  variantId: { ...id, description: 'Empty if the line has none' },
  quantity: { type: 'integer', minimum: 0, description: '0: nothing is left of the line' },
  price: decimalTextOrNull,
  discount: decimalText,
  amount: { ...decimalTextOrNull, description: 'What was paid for the line' },
  currency: text,
  test: boolean,
});

const alert = dataOf({
  ...visitor,
  productId: id,
  variantId: idOrNull,
  productHandle: text,
  productTitle: text,
  priceBefore: { ...decimalText, description: 'That the product was wished at' },
  price: decimalText,
  currencyCode: textOrNull,
});

const HEADERS = {
  'webhook-id': 'The same at each attempt',
  'webhook-timestamp': 'Seconds since 1970, of this attempt',
  'webhook-signature':
    '`v1,` and the base64 HMAC-SHA256 of id, timestamp and body; several are separated by spaces',
};

function webhook(operationId: string, summary: string, types: readonly string[], data: object): object {
  const schema = answerOf({ type: { type: 'string', enum: types }, timestamp: time, data });
  return {
    post: {
      operationId,
      tags: ['Receivers'],
      summary,
      security: [],
      parameters: Object.entries(HEADERS).map(([name, description]) => ({
        ...{ name, in: 'header', required: true, description, schema: { type: 'string' } },
      })),
      requestBody: { required: true, content: { 'application/json': { schema } } },
      responses: {
        '2XX': { description: 'Taken' },
        '410': { description: 'Not wanted any more: the receiver is disabled' },
        '4XX': { description: 'Not taken: it is sent again later' },
        '5XX': { description: 'Not taken: it is sent again later' },
      },
    },
  };
}

export const WEBHOOKS = {
  event: webhook('onEvent', 'A wishlist event', EVENT_TYPES, event),
  purchase: webhook('onPurchase', 'A line of an order', ['purchase'], purchase),
  alert: webhook('onAlert', 'A price drop or a restock of a wished product', ALERT_TYPES, alert),
  test: webhook('onTest', 'What `POST /receivers/{id}/test` sends', ['test'], { type: 'object' }),
};

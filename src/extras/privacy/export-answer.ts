// JSON Schema of an export's answer, for /openapi.json.

import {
  answerOf,
  boolean,
  decimalText,
  decimalTextOrNull,
  idOrNull,
  text,
  textOrNull,
  time,
  word,
} from '../../field-schemas.js';
import { EVENT_TYPES } from '../../validation/schemas.js';
import { ALERT_TYPES } from '../alerts/alert.js';
import { EXPORTED_ANSWERS } from './exported.js';

const namesAnswer = { type: 'array', items: text } as const;

const rowsAnswer = (view: string, columns: Record<string, object>) => ({
  type: ['array', 'null'],
  items: answerOf(columns),
  description: `Rows of the view \`${view}\`, oldest first; null if \`serve\` has no CLICKHOUSE_URL`,
});

const visitor = { profile_id: text, customer_id: idOrNull, session_id: textOrNull };
const blankable = { type: 'string', description: 'Empty if there is none' } as const;
const product = { product_id: blankable, variant_id: blankable };
const pieces = { type: ['integer', 'null'], minimum: 0 } as const;

const eventColumns = {
  event_id: text,
  type: word(EVENT_TYPES),
  occurred_at: time,
  ...visitor,
  device: blankable,
  locale: blankable,
  origin: word(['event', 'item', 'share', 'purchase', 'import']),
  ...product,
  product_handle: blankable,
  source: blankable,
  channel: blankable,
  share_code: blankable,
  currency: blankable,
  inventory_available: { type: ['boolean', 'null'] },
  quantity: pieces,
  price: decimalTextOrNull,
  compare_at: decimalTextOrNull,
  payload: { type: 'string', description: 'The whole payload, as JSON' },
};

const visitColumns = { occurred_at: time, profile_id: text, product_handle: text, device: blankable };

const purchaseColumns = {
  occurred_at: time,
  updated_at: time,
  order_id: text,
  ...visitor,
  ...product,
  quantity: { type: 'integer', minimum: 1 },
  price: decimalTextOrNull,
  discount: decimalText,
  amount: { ...decimalTextOrNull, description: 'What was paid for the line' },
  currency: text,
  test: boolean,
  product_handle: blankable,
};

const alertColumns = {
  occurred_at: time,
  type: word(ALERT_TYPES),
  ...visitor,
  ...product,
  product_handle: blankable,
  price_before: { ...decimalTextOrNull, description: 'The price when the product was saved' },
  price: decimalTextOrNull,
  currency: blankable,
};

const visitorAnswer = answerOf({
  profileId: text,
  identities: answerOf({ customerIds: namesAnswer, sessionIds: namesAnswer }),
  ...EXPORTED_ANSWERS,
  shares: namesAnswer,
  events: rowsAnswer('events', eventColumns),
  visitLog: rowsAnswer('visits', visitColumns),
  purchases: rowsAnswer('purchases', purchaseColumns),
  productAlerts: rowsAnswer('product_alerts', alertColumns),
});

export const exportAnswer = {
  ...visitorAnswer,
  properties: {
    ...visitorAnswer.properties,
    others: {
      type: 'array',
      items: visitorAnswer,
      description: 'Other visitors for whom the same e-mail address was given; absent if there is none',
    },
  },
};

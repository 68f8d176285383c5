// JSON Schema of an export's answer, for /openapi.json.

import { answerOf, text } from '../../field-schemas.js';
import { EXPORTED_ANSWERS } from './exported.js';

const namesAnswer = { type: 'array', items: text } as const;

const rowsAnswer = (view: string) => ({
  type: ['array', 'null'],
  items: { type: 'object', additionalProperties: true },
  description: `Columns of the view \`${view}\`, oldest first; null where \`serve\` has no CLICKHOUSE_URL`,
});

const visitorAnswer = answerOf({
  profileId: text,
  identities: answerOf({ customerIds: namesAnswer, sessionIds: namesAnswer }),
  ...EXPORTED_ANSWERS,
  shares: namesAnswer,
  events: rowsAnswer('events'),
  visitLog: rowsAnswer('visits'),
  purchases: rowsAnswer('purchases'),
  productAlerts: rowsAnswer('product_alerts'),
});

export const exportAnswer = {
  ...visitorAnswer,
  properties: {
    ...visitorAnswer.properties,
    others: {
      type: 'array',
      items: visitorAnswer,
      description: 'Other visitors for whom the same e-mail address was given; absent where there is none',
    },
  },
};

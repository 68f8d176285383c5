// JSON Schema of an export's answer, for /openapi.json.

import { text } from '../../field-schemas.js';
import { answerOf, item } from '../../http/answer-schemas.js';

const namesAnswer = { type: 'array', items: text } as const;

const rowsAnswer = (view: string) => ({
  type: ['array', 'null'],
  items: { type: 'object', additionalProperties: true },
  description: `Columns of the view \`${view}\`, oldest first; null where \`serve\` has no CLICKHOUSE_URL`,
});

const visitorAnswer = answerOf({
  profileId: text,
  identities: answerOf({ customerIds: namesAnswer, sessionIds: namesAnswer }),
  profile: { type: 'object', description: 'E-mail address, names, device, locale, where they are known' },
  items: { type: 'array', items: item, description: 'Newest first' },
  visits: { type: 'object', description: 'Product handle: count', additionalProperties: { type: 'integer' } },
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

// POST /product/visit/list, for collection pages.

import { visitListAnswer } from '../http/answer-schemas.js';
import { MAX_BODY, type Operation, operation } from '../http/operation.js';
import { readVisitList } from '../validation/requests.js';
import { visitListBody } from '../validation/schemas.js';
import type { VisitCounter } from './counter.js';

const EXAMPLE = { identity: { sessionId: 's-1' }, productHandles: ['red-shoe', 'blue-hat'] };

export function visitListOperation(counter: VisitCounter): Operation {
  return operation({
    method: 'post',
    doc: {
      id: 'listVisitCounts',
      tag: 'Visits',
      summary: 'Reads the counts of up to 100 products',
      body: { schema: visitListBody, example: EXAMPLE },
      answer: visitListAnswer,
    },
    path: '/product/visit/list',
    accessGroup: 'visits',
    maxBody: MAX_BODY,
    read: readVisitList,
    async handle({ productHandles }, { identity }) {
      const { profileId, counts } = await counter.readAll(identity, productHandles);
      // Counts are joined as text, because an object would lose a handle named __proto__.
      const fields = productHandles.map((handle, i) => `${JSON.stringify(handle)}:${counts[i]}`);
      return `{"profileId":"${profileId}","counts":{${fields.join()}}}`;
    },
  });
}

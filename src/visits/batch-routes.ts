// POST /product/visit/batch, for relays, edge workers and importers.

import { ERRORS, ServiceError } from '../errors.js';
import { visitBatchAnswer } from '../http/answer-schemas.js';
import { type Operation, operation } from '../http/operation.js';
import { readFlag, readVisitBatch } from '../validation/requests.js';
import { visitBatchBody } from '../validation/schemas.js';
import type { VisitCounter } from './counter.js';
import { countMany, type VisitOutcome } from './many-visits.js';
import { COUNT_QUERY, answer as visitText } from './routes.js';

/** Bytes for 500 visits. */
const MAX_BODY = 512 * 1024;

const EXAMPLE = {
  visits: [
    { identity: { sessionId: 's-1', device: 'desktop' }, productHandle: 'blue-hat' },
    { identity: { customerId: '42' }, productHandle: 'red-shoe' },
  ],
};

export function visitBatchOperation(counter: VisitCounter): Operation {
  return operation({
    method: 'post',
    doc: {
      id: 'countVisits',
      tag: 'Visits',
      summary: 'Counts up to 500 visits; `?count=true` answers the counts',
      query: { schema: COUNT_QUERY, example: { count: 'true' } },
      body: { schema: visitBatchBody, example: EXAMPLE },
      answer: visitBatchAnswer,
    },
    path: '/product/visit/batch',
    accessGroup: 'administration',
    maxBody: MAX_BODY,
    ignoresKey: true,
    weight: visitsIn,
    read: readVisitBatch,
    async handle(input, request) {
      const wantsCount = readFlag(request.query(), 'count');
      const visits = input.visits.map(({ identity, productHandle }) => ({
        identity: request.actFor(identity),
        productHandle,
      }));
      const kind = wantsCount ? 'count' : 'visit';
      const outcomes = await countMany(counter, kind, visits, request.caller.mayLink);
      refuseWhereNoneIsCounted(outcomes);
      const results = outcomes.map((outcome, i) => {
        if (outcome instanceof ServiceError)
          return JSON.stringify({ error: outcome.message, code: outcome.code });
        const { productHandle } = visits[i] as (typeof visits)[number];
        return visitText(outcome.profileId, productHandle, wantsCount ? outcome.count : undefined);
      });
      return `{"results":[${results.join()}]}`;
    },
  });
}

/** Counts the visits of an invalid body, too, because validation takes time. */
function visitsIn(body: unknown): number {
  const visits = (body as { readonly visits?: unknown } | null | undefined)?.visits;
  return Array.isArray(visits) ? Math.max(1, visits.length) : 1;
}

/** If any visit was counted, nothing is thrown, because the caller must not retry the whole batch. */
function refuseWhereNoneIsCounted(outcomes: readonly VisitOutcome[]): void {
  let passing: ServiceError | undefined;
  for (const outcome of outcomes) {
    if (!(outcome instanceof ServiceError)) return;
    if (ERRORS[outcome.code].retryable) passing ??= outcome;
  }
  if (passing !== undefined) throw passing;
}

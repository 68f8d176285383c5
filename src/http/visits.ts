// POST, GET and DELETE /product/visit.

import type { Visitors } from '../identity/visitors.js';
import type { Once } from '../redis/once.js';
import { countAnswer, resetAnswer, visitAnswer } from '../validation/answers.js';
import { readVisitBody, readVisitQuery } from '../validation/requests.js';
import { visitBody, visitQuery } from '../validation/schemas.js';
import type { Access } from './access.js';
import { IDEMPOTENCY_KEY, once } from './idempotency.js';
import { MAX_BODY } from './limits.js';
import type { Operation, Request } from './operation.js';

const PATH = '/product/visit';
const COUNT_QUERY = { properties: { count: { type: 'string', enum: ['true', 'false'] } } };
const EXAMPLE = { identity: { sessionId: 's-1', device: 'desktop' }, productHandle: 'red-shoe' };
const EXAMPLE_QUERY = { sessionId: 's-1', device: 'desktop', productHandle: 'red-shoe' };

export function visitOperations(access: Access, visitors: Visitors, records: Once): Operation[] {
  return [
    {
      method: 'post',
      doc: {
        summary: 'Counts a visit; with `?count=true` the answer has the count',
        query: { schema: COUNT_QUERY, example: { count: 'true' } },
        body: { schema: visitBody, example: EXAMPLE },
        answer: visitAnswer,
      },
      path: PATH,
      subject: 'visits',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      handle(request) {
        const { caller } = request;
        const wantsCount = request.query()['count'] === 'true';
        const { identity: named, productHandle } = readVisitBody(request.body);
        const identity = access.actFor(caller, named);
        return once(records, 'visit', request, { identity, productHandle }, async (visit, operation) => {
          const kind = wantsCount || operation !== undefined ? 'visitAndCount' : 'visit';
          const { profileId, count } = await visitors.enter(
            kind,
            visit.identity,
            caller.mayLink,
            visit.productHandle,
            operation?.id,
          );
          return answer(profileId, visit.productHandle, wantsCount ? count : undefined);
        });
      },
    },
    {
      method: 'get',
      doc: {
        summary: 'Reads the count',
        query: { schema: visitQuery, example: EXAMPLE_QUERY },
        answer: countAnswer,
      },
      path: PATH,
      subject: 'visits',
      maxBody: 0,
      async handle(request) {
        const { caller } = request;
        const { identity: named, productHandle } = readVisitQuery(request.query());
        const identity = access.actFor(caller, named);
        const { profileId, count } = await visitors.read(identity, caller.mayLink, productHandle);
        return answer(profileId, productHandle, count);
      },
    },
    {
      method: 'delete',
      doc: {
        summary: 'Resets the count; where a proxy drops the body, the query names the same',
        query: { schema: { properties: visitQuery.properties }, example: {} },
        body: { schema: visitBody, example: EXAMPLE, optional: true },
        answer: resetAnswer,
      },
      path: PATH,
      subject: 'visits',
      maxBody: MAX_BODY,
      async handle(request) {
        const { identity: named, productHandle } = readDelete(request);
        const identity = access.actFor(request.caller, named);
        const { profileId } = await visitors.enter('reset', identity, request.caller.mayLink, productHandle);
        return answer(profileId, productHandle);
      },
    },
  ];
}

/** Some proxies drop the body of a DELETE; then the query names the same. */
function readDelete(request: Request) {
  return request.body === undefined ? readVisitQuery(request.query()) : readVisitBody(request.body);
}

// Profile ids have no characters that JSON escapes.
function answer(profileId: string, productHandle: string, count?: number): string {
  const fields = `{"profileId":"${profileId}","productHandle":${JSON.stringify(productHandle)}`;
  return count === undefined ? `${fields}}` : `${fields},"count":${count}}`;
}

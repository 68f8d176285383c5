// POST, GET and DELETE /product/visit.

import type { Visitors } from '../identity/visitors.js';
import { readVisitBody, readVisitQuery } from '../validation/requests.js';
import type { Access } from './access.js';
import type { Operation, Request } from './exchange.js';
import { MAX_BODY } from './limits.js';

const PATH = '/product/visit';

export function visitOperations(visitors: Visitors, access: Access): Operation[] {
  return [
    {
      method: 'post',
      path: PATH,
      subject: 'visits',
      maxBody: MAX_BODY,
      async handle({ caller, body, query }) {
        const { identity, productHandle } = readVisitBody(body);
        access.checkVisitor(caller, identity);
        const wantsCount = query()['count'] === 'true';
        const kind = wantsCount ? 'visitAndCount' : 'visit';
        const { profileId, count } = await visitors.enter(kind, identity, caller.mayLink, productHandle);
        return answer(profileId, productHandle, wantsCount ? count : undefined);
      },
    },
    {
      method: 'get',
      path: PATH,
      subject: 'visits',
      maxBody: 0,
      async handle({ caller, query }) {
        const { identity, productHandle } = readVisitQuery(query());
        access.checkVisitor(caller, identity);
        const { profileId, count } = await visitors.read(identity, caller.mayLink, productHandle);
        return answer(profileId, productHandle, count);
      },
    },
    {
      method: 'delete',
      path: PATH,
      subject: 'visits',
      maxBody: MAX_BODY,
      async handle(request) {
        const { identity, productHandle } = readDelete(request);
        access.checkVisitor(request.caller, identity);
        const { profileId } = await visitors.enter('reset', identity, request.caller.mayLink, productHandle);
        return answer(profileId, productHandle);
      },
    },
  ];
}

/** Some proxies drop the body of a DELETE; then the query names the same. */
function readDelete({ body, query }: Request) {
  return body === undefined ? readVisitQuery(query()) : readVisitBody(body);
}

// Profile ids have no characters that JSON escapes.
function answer(profileId: string, productHandle: string, count?: number): string {
  const fields = `{"profileId":"${profileId}","productHandle":${JSON.stringify(productHandle)}`;
  return count === undefined ? `${fields}}` : `${fields},"count":${count}}`;
}

// DELETE /profile and GET /profile: what a visitor may ask of a shop, asked by the shop's server.

import { ServiceError } from '../errors.js';
import type { Eraser } from '../identity/eraser.js';
import type { Exporter } from '../identity/exporter.js';
import type { NamedVisitors } from '../identity/named-visitor.js';
import type { RequestStore } from '../redis/requests.js';
import { readProfile } from '../validation/requests.js';
import { profileBody, profileQuery } from '../validation/schemas.js';
import { erasureAnswer, exportAnswer } from './answers.js';
import { IDEMPOTENCY_KEY, NOWHERE, once } from './idempotency.js';
import { MAX_BODY, type Operation } from './operation.js';

const EXAMPLE = { customerId: '7' };
const UNKNOWN_EMAIL = 'No visitor is known by this e-mail address.';

export function rightsOperations(
  visitors: NamedVisitors,
  eraser: Eraser,
  exporter: Exporter,
  requests: RequestStore,
): Operation[] {
  return [
    {
      method: 'get',
      doc: {
        id: 'exportProfile',
        tag: 'Profiles',
        summary: 'Answers all that is kept of a visitor, by customer id, session id or e-mail address',
        query: { schema: profileQuery, example: EXAMPLE },
        refusals: ['not_found'],
        answer: exportAnswer,
      },
      path: '/profile',
      subject: 'administration',
      maxBody: 0,
      async handle(request) {
        const named = await visitors.find(readProfile(undefined, request.query()));
        const found = await exporter.exportNamed(named);
        if (found === undefined) throw new ServiceError('not_found', UNKNOWN_EMAIL);
        return JSON.stringify(found);
      },
    },
    {
      method: 'delete',
      doc: {
        id: 'eraseProfile',
        tag: 'Profiles',
        summary:
          'Erases a visitor, by customer id, session id or e-mail address; where a proxy drops the body, the query names the same',
        query: { schema: { properties: profileQuery.properties }, example: {} },
        body: { schema: profileBody, example: { identity: EXAMPLE }, optional: true },
        answer: erasureAnswer,
      },
      path: '/profile',
      subject: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      async handle(request) {
        const identity = readProfile(request.body, request.body === undefined ? request.query() : {});
        return once(requests, request, { operation: 'erase', input: identity }, NOWHERE, async () => {
          const erased = await eraser.eraseNamed(await visitors.find(identity));
          return JSON.stringify({ erased });
        });
      },
    },
  ];
}

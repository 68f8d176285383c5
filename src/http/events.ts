// POST /event.

import { ServiceError } from '../errors.js';
import { encodeEvent } from '../events/row.js';
import type { Profiles } from '../identity/profiles.js';
import { fitsBytes } from '../identity/rules.js';
import type { Visitors } from '../identity/visitors.js';
import type { Operation as RepeatableOperation, RequestStore } from '../redis/requests.js';
import { profileAnswer } from '../validation/answers.js';
import { readEvent } from '../validation/requests.js';
import { eventBody } from '../validation/schemas.js';
import type { Access } from './access.js';
import { hasKey, IDEMPOTENCY_KEY, once } from './idempotency.js';
import { MAX_BODY, MAX_PAYLOAD } from './limits.js';
import type { LinkedSessions } from './linked-sessions.js';
import type { Operation } from './operation.js';

/** An event has its id from the request record: appended twice, wherever, it is one event. */
const NOWHERE = () => '';

const EXAMPLE = {
  identity: { sessionId: 's-1', device: 'desktop' },
  type: 'add',
  payload: { productId: '1001', variantId: null, source: 'pdp' },
};

export function eventOperations(
  access: Access,
  sessions: LinkedSessions,
  visitors: Visitors,
  profiles: Profiles,
  requests: RequestStore,
): Operation[] {
  return [
    {
      method: 'post',
      doc: {
        id: 'recordEvent',
        tag: 'Events',
        summary: 'Records a wishlist event',
        body: { schema: eventBody, example: EXAMPLE },
        answer: profileAnswer,
      },
      path: '/event',
      subject: 'wishlist',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      async handle(request) {
        const { caller } = request;
        const input = readEvent(request.body);
        const { type, payload = {} } = input;
        const identity = access.actFor(caller, input.identity);
        const payloadJson = JSON.stringify(payload);
        if (!fitsBytes(payloadJson, MAX_PAYLOAD)) {
          throw new ServiceError('payload_too_large', `The payload is larger than ${MAX_PAYLOAD} bytes.`, [
            { path: '/payload', message: `must have at most ${MAX_PAYLOAD} bytes as JSON` },
          ]);
        }
        await sessions.refuse(caller, identity);
        const asked = { operation: 'event', input, identity };
        const record = async (operation?: RepeatableOperation) => {
          const encode = (profileId: string) =>
            encodeEvent({
              type,
              origin: 'event',
              profileId,
              identity,
              payload,
              payloadJson,
              id: operation?.id,
              at: operation?.at,
            });
          // The event comes last: a caller who is told that it failed will send it again.
          await profiles.learn(identity, () => visitors.enter('resolve', identity, caller.mayLink));
          const profileId = await visitors.record(identity, caller.mayLink, encode);
          return `{"profileId":"${profileId}"}`;
        };
        return hasKey(request) ? once(requests, request, asked, NOWHERE, record) : record();
      },
    },
  ];
}

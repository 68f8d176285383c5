// POST /event.

import { ServiceError } from '../errors.js';
import { encodeEvent } from '../events/row.js';
import { isPersonal, type Profiles } from '../identity/profiles.js';
import { fitsBytes } from '../identity/rules.js';
import type { Visitors } from '../identity/visitors.js';
import type { Once } from '../redis/once.js';
import { profileAnswer } from '../validation/answers.js';
import { readEvent } from '../validation/requests.js';
import { eventBody } from '../validation/schemas.js';
import type { Access } from './access.js';
import { IDEMPOTENCY_KEY, once } from './idempotency.js';
import { MAX_BODY, MAX_PAYLOAD } from './limits.js';
import type { Operation } from './operation.js';

const EXAMPLE = {
  identity: { sessionId: 's-1', device: 'desktop' },
  type: 'add',
  payload: { productId: '1001', variantId: null, source: 'pdp' },
};

export function eventOperations(
  access: Access,
  visitors: Visitors,
  profiles: Profiles,
  records: Once,
): Operation[] {
  return [
    {
      method: 'post',
      doc: {
        summary: 'Records a wishlist event',
        body: { schema: eventBody, example: EXAMPLE },
        answer: profileAnswer,
      },
      path: '/event',
      subject: 'wishlist',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      handle(request) {
        const { caller } = request;
        const { identity: named, type, payload = {} } = readEvent(request.body);
        const identity = access.actFor(caller, named);
        const payloadJson = JSON.stringify(payload);
        if (!fitsBytes(payloadJson, MAX_PAYLOAD)) {
          throw new ServiceError('payload_too_large', `The payload is larger than ${MAX_PAYLOAD} bytes.`);
        }
        return once(records, 'event', request, { identity, type, payload }, async (event, operation) => {
          const encode = (profileId: string) =>
            encodeEvent({
              type: event.type,
              origin: 'event',
              profileId,
              identity: event.identity,
              payload: event.payload,
              payloadJson: event.payload === payload ? payloadJson : undefined,
              id: operation?.id,
              at: operation?.at,
            });
          // The event comes last: whoever is told that it failed will send it again.
          if (isPersonal(event.identity)) {
            const { profileId } = await visitors.enter('resolve', event.identity, caller.mayLink);
            await profiles.keep(profileId, event.identity);
          }
          const profileId = await visitors.record(event.identity, caller.mayLink, encode);
          return `{"profileId":"${profileId}"}`;
        });
      },
    },
  ];
}

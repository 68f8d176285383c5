// POST /profile/guest and /profile/merge.

import type { Profiles } from '../identity/profiles.js';
import type { Visitors } from '../identity/visitors.js';
import type { RequestStore } from '../redis/requests.js';
import { readGuest, readMerge } from '../validation/requests.js';
import { guestBody, mergeBody } from '../validation/schemas.js';
import type { Access } from './access.js';
import { mergeAnswer, profileAnswer } from './answers.js';
import { IDEMPOTENCY_KEY, NOWHERE, once } from './idempotency.js';
import { MAX_BODY, type Operation } from './operation.js';

export function profileOperations(
  access: Access,
  visitors: Visitors,
  profiles: Profiles,
  requests: RequestStore,
): Operation[] {
  return [
    {
      method: 'post',
      doc: {
        id: 'keepGuest',
        tag: 'Profiles',
        summary: "Makes a guest's profile and keeps what is known of the guest",
        body: { schema: guestBody, example: { sessionId: 's-1', device: 'desktop', locale: 'en' } },
        answer: profileAnswer,
      },
      path: '/profile/guest',
      subject: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      async handle(request) {
        const { body, caller } = request;
        const identity = access.actFor(caller, readGuest(body));
        return once(requests, request, { operation: 'guest', input: identity }, NOWHERE, async () => {
          const profileId = await profiles.keep(identity, caller.mayLink);
          return JSON.stringify({ profileId });
        });
      },
    },
    {
      method: 'post',
      doc: {
        id: 'mergeProfiles',
        tag: 'Profiles',
        summary: 'Says that a session belongs to a customer, as after a login',
        body: { schema: mergeBody, example: { identity: { customerId: '7', sessionId: 's-1' } } },
        answer: mergeAnswer,
      },
      path: '/profile/merge',
      subject: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      async handle(request) {
        const identity = readMerge(request.body);
        access.actFor(request.caller, identity);
        return once(requests, request, { operation: 'merge', input: identity }, NOWHERE, async () => {
          const { profileId, merged } = await visitors.link(identity);
          await profiles.keep(identity, true);
          return JSON.stringify({ profileId, merged });
        });
      },
    },
  ];
}

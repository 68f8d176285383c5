// POST /profile/guest and /profile/merge; DELETE /profile.

import { erasureAnswer, mergeAnswer, profileAnswer } from '../http/answer-schemas.js';
import { ERASURE, IDEMPOTENCY_KEY, once } from '../http/idempotency.js';
import { MAX_BODY, type Operation, operation } from '../http/operation.js';
import type { RequestStore } from '../redis/requests.js';
import { readGuest, readMerge, readProfile } from '../validation/requests.js';
import { guestBody, mergeBody, profileBody, profileQuery } from '../validation/schemas.js';
import type { Eraser } from './eraser.js';
import type { FindNamed } from './named-visitor.js';
import type { Profiles } from './profiles.js';
import type { Visitors } from './visitors.js';

const EXAMPLE = { customerId: '7' };

export interface ProfileServices {
  readonly visitors: Visitors;
  readonly profiles: Profiles;
  readonly findNamed: FindNamed;
  readonly eraser: Eraser;
  readonly requests: RequestStore;
}

export function profileOperations(services: ProfileServices): Operation[] {
  const { visitors, profiles, findNamed, eraser, requests } = services;
  return [
    operation({
      method: 'post',
      doc: {
        id: 'keepGuest',
        tag: 'Profiles',
        summary: "Makes a guest's profile with the given facts",
        body: { schema: guestBody, example: { sessionId: 's-1', device: 'desktop', locale: 'en' } },
        answer: profileAnswer,
      },
      path: '/profile/guest',
      accessGroup: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: readGuest,
      handle(input, request) {
        const { caller, identity } = request;
        const what = { operation: 'guest', input: input.identity };
        return once(requests, request, what, async () => {
          const profileId = await profiles.keep(identity, caller.mayLink, true);
          return JSON.stringify({ profileId });
        });
      },
    }),
    operation({
      method: 'post',
      doc: {
        id: 'mergeProfiles',
        tag: 'Profiles',
        summary: 'Links a session to a customer, as after a login',
        body: { schema: mergeBody, example: { identity: { customerId: '7', sessionId: 's-1' } } },
        answer: mergeAnswer,
      },
      path: '/profile/merge',
      accessGroup: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: readMerge,
      handle(input, request) {
        const { identity } = request;
        const what = { operation: 'merge', input: input.identity };
        return once(requests, request, what, async () => {
          const merged = await visitors.merge(identity);
          const profileId = await profiles.keep(identity, true, true);
          return JSON.stringify({ profileId, merged });
        });
      },
    }),
    operation({
      method: 'delete',
      doc: {
        id: 'eraseProfile',
        tag: 'Profiles',
        summary: 'Erases a visitor, by customer id, session id or e-mail address, in the body or the query',
        query: { schema: { properties: profileQuery.properties }, example: {} },
        body: { schema: profileBody, example: { identity: EXAMPLE }, optional: true },
        answer: erasureAnswer,
      },
      path: '/profile',
      accessGroup: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: (body, request) => readProfile(body, request.query()),
      handle(input, request) {
        const { identity } = request;
        const what = { operation: ERASURE, input: input.identity };
        return once(requests, request, what, async () => {
          const erased = await eraser.eraseNamed(await findNamed(identity, input.namedIn));
          return JSON.stringify({ erased });
        });
      },
    }),
  ];
}

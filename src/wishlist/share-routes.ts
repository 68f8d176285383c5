// POST /share and GET /share/:code/items.

import { ServiceError } from '../errors.js';
import { shareAnswer, sharedItemsAnswer } from '../http/answer-schemas.js';
import { IDEMPOTENCY_KEY, once } from '../http/idempotency.js';
import { MAX_BODY, type Operation, operation } from '../http/operation.js';
import { isByPerson, PREFETCH_HEADERS } from '../http/persons.js';
import { isPersonal, type Profiles } from '../profiles/profiles.js';
import type { Visitors } from '../profiles/visitors.js';
import type { RequestStore } from '../redis/requests.js';
import { readShare } from '../validation/requests.js';
import { shareBody } from '../validation/schemas.js';
import type { Items } from './items.js';
import type { ShareOpens } from './share-opens.js';
import { normaliseCode, type Shares } from './shares.js';

export interface ShareServices {
  readonly visitors: Visitors;
  readonly profiles: Profiles;
  readonly shares: Shares;
  readonly items: Items;
  readonly opens: ShareOpens;
  readonly requests: RequestStore;
  /** @returns the address of an image that the share page would show */
  readonly imageOf: (address: string | null) => string | undefined;
}

export function shareOperations(services: ShareServices): Operation[] {
  const { visitors, profiles, shares, items, opens, requests, imageOf } = services;
  return [
    operation({
      method: 'post',
      doc: {
        id: 'shareWishlist',
        tag: 'Sharing',
        summary: "Gives the wishlist's share link, with a `share` event",
        body: { schema: shareBody, example: { identity: { sessionId: 's-1' }, channel: 'Link' } },
        answer: shareAnswer,
      },
      path: '/share',
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: readShare,
      async handle(input, request) {
        const { caller, identity } = request;
        const location = () => visitors.likelyProfile(identity);
        const what = { operation: 'share', input, location };
        return once(requests, request, what, async (operation) => {
          if (isPersonal(identity)) await profiles.keep(identity, caller.mayLink, caller.kind === 'server');
          const { answer } = await visitors.change(identity, caller.mayLink, (location) =>
            shares.share(location, identity, input.channel, operation),
          );
          return JSON.stringify({ shareLink: answer.shareLink, code: answer.code });
        });
      },
    }),
    {
      method: 'get',
      doc: {
        id: 'listSharedItems',
        tag: 'Sharing',
        summary: 'Lists a shared wishlist, newest item first',
        answer: sharedItemsAnswer,
      },
      path: '/share/:code/items',
      accessGroup: 'wishlist',
      maxBody: 0,
      headers: PREFETCH_HEADERS,
      async handle(_, request) {
        const shareCode = normaliseCode(request.parameter);
        const shared = await shares.read(shareCode, (location) => items.list(location));
        if (shared === undefined) throw new ServiceError('not_found', 'No wishlist has this share code.');
        if (isByPerson(request)) await opens.record(shared.profileId, shareCode);
        const shown = shared.answer.map((item) => ({ ...item, image: imageOf(item.image) ?? null }));
        return JSON.stringify({ shareCode, profileId: shared.profileId, items: shown });
      },
    },
  ];
}

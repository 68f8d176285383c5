// POST /item/add, /item/remove and /item/list.

import { ServiceError } from '../errors.js';
import type { Profiles } from '../identity/profiles.js';
import { fitsBytes } from '../identity/rules.js';
import type { Visitors } from '../identity/visitors.js';
import { itemAddAnswer, itemListAnswer, itemRemoveAnswer } from '../validation/answers.js';
import { readItem, readList, readRemoval } from '../validation/requests.js';
import { itemAddBody, itemListBody, itemRemoveBody } from '../validation/schemas.js';
import type { Items } from '../wishlist/items.js';
import type { Access } from './access.js';
import { MAX_BODY, MAX_PAYLOAD } from './limits.js';
import type { LinkedSessions } from './linked-sessions.js';
import type { Operation } from './operation.js';

const IDENTITY = { sessionId: 's-1', device: 'desktop' };
const EXAMPLE = {
  identity: IDENTITY,
  productId: 'gid://shopify/Product/1001',
  variantId: 'gid://shopify/ProductVariant/2002',
  productHandle: 'red-shoe',
  productTitle: 'Red shoe',
  variantTitle: '42',
  image: 'https://cdn.shop.example/red-shoe.png',
  price: '79.90',
  compareAt: '99.90',
  inventoryAvailable: true,
  quantity: 1,
  currencyCode: 'EUR',
  countryCode: 'DE',
  source: 'pdp',
};

export function itemOperations(
  access: Access,
  sessions: LinkedSessions,
  visitors: Visitors,
  profiles: Profiles,
  items: Items,
): Operation[] {
  return [
    {
      method: 'post',
      doc: {
        id: 'addItem',
        tag: 'Wishlist',
        refusals: ['too_many_items'],
        summary: 'Adds an item to the wishlist or updates it, with an `add` event',
        body: { schema: itemAddBody, example: EXAMPLE },
        answer: itemAddAnswer,
      },
      path: '/item/add',
      subject: 'wishlist',
      maxBody: MAX_BODY,
      async handle({ body, caller }) {
        const { identity: named, content } = readItem(body);
        const identity = access.actFor(caller, named);
        const { properties, productId, variantId, quantity } = content;
        if (properties !== undefined && !fitsBytes(JSON.stringify(properties), MAX_PAYLOAD)) {
          throw new ServiceError(
            'payload_too_large',
            `The properties are larger than ${MAX_PAYLOAD} bytes.`,
            [{ path: '/properties', message: `must have at most ${MAX_PAYLOAD} bytes as JSON` }],
          );
        }
        await sessions.refuse(caller, identity);
        await profiles.learn(identity, () => visitors.enter('resolve', identity, caller.mayLink));
        const { profileId, answer } = await visitors.change(identity, caller.mayLink, (place) =>
          items.add(place, identity, content),
        );
        return JSON.stringify({ profileId, itemId: answer.itemId, productId, variantId, quantity });
      },
    },
    {
      method: 'post',
      doc: {
        id: 'removeItem',
        tag: 'Wishlist',
        summary: 'Removes an item, with a `remove` or `moveToCart` event',
        body: {
          schema: itemRemoveBody,
          example: { identity: IDENTITY, productId: '1001', variantId: '2002', event: 'moveToCart' },
        },
        answer: itemRemoveAnswer,
      },
      path: '/item/remove',
      subject: 'wishlist',
      maxBody: MAX_BODY,
      async handle({ body, caller }) {
        const { identity: named, productId, variantId, event } = readRemoval(body);
        const identity = access.actFor(caller, named);
        await sessions.refuse(caller, identity);
        const { profileId, answer } = await visitors.changeKnown(identity, caller.mayLink, (place) =>
          items.remove(place, identity, productId, variantId, event),
        );
        return JSON.stringify({ profileId, removed: answer.removed, productId, variantId });
      },
    },
    {
      method: 'post',
      doc: {
        id: 'listItems',
        tag: 'Wishlist',
        summary: 'Lists the items of the wishlist, newest first',
        body: { schema: itemListBody, example: { identity: IDENTITY } },
        answer: itemListAnswer,
      },
      path: '/item/list',
      subject: 'wishlist',
      maxBody: MAX_BODY,
      async handle({ body, caller }) {
        const identity = access.actFor(caller, readList(body));
        const found = await visitors.find(identity, caller.mayLink);
        const listed = found.known
          ? await items.list(found.profileId)
          : { profileId: found.profileId, items: [] };
        await sessions.refuse(caller, identity);
        return JSON.stringify(listed);
      },
    },
  ];
}

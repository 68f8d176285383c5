// POST /item/add, /item/remove, /item/list, /item/check and /item/count.

import { ServiceError } from '../errors.js';
import {
  itemAddAnswer,
  itemCheckAnswer,
  itemCountAnswer,
  itemListAnswer,
  itemRemoveAnswer,
} from '../http/answer-schemas.js';
import { hasKey, IDEMPOTENCY_KEY, once } from '../http/idempotency.js';
import { MAX_BODY, MAX_PAYLOAD, type Operation, operation, type Request } from '../http/operation.js';
import { fitsBytes } from '../identity-rules.js';
import type { ItemContent } from '../item-fields.js';
import { isPersonal, type Profiles } from '../profiles/profiles.js';
import type { Visitors } from '../profiles/visitors.js';
import type { KeyedOperation, RequestStore } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { type ItemRequest, readItem, readItemCheck, readList, readRemoval } from '../validation/requests.js';
import { itemAddBody, itemCheckBody, itemListBody, itemRemoveBody } from '../validation/schemas.js';
import { assertItemFits } from './item-limit.js';
import type { Items } from './items.js';
import type { ItemLimits } from './wishlist-batch.js';

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

export interface ItemServices {
  readonly visitors: Visitors;
  readonly profiles: Profiles;
  readonly items: Items;
  readonly store: Store;
  readonly limits: ItemLimits;
  readonly requests: RequestStore;
}

export function itemOperations(services: ItemServices): Operation[] {
  const { visitors, profiles, items, requests, store, limits } = services;
  const assertFits = (profileId: string, content: ItemContent) =>
    assertItemFits(store, limits, profileId, content);
  return [
    operation({
      method: 'post',
      doc: {
        id: 'addItem',
        tag: 'Wishlist',
        refusals: ['too_many_items'],
        summary: 'Adds or updates an item, with an `add` event',
        body: { schema: itemAddBody, example: EXAMPLE },
        answer: itemAddAnswer,
      },
      path: '/item/add',
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read(body) {
        const input = readItem(body);
        const { properties } = input.content;
        if (properties !== undefined && !fitsBytes(JSON.stringify(properties), MAX_PAYLOAD)) {
          throw new ServiceError(
            'payload_too_large',
            `The properties are larger than ${MAX_PAYLOAD} bytes.`,
            [{ in: 'body', path: '/properties', message: `must have at most ${MAX_PAYLOAD} bytes as JSON` }],
          );
        }
        return input;
      },
      handle(input, request) {
        if (isPersonal(request.identity) || hasKey(request)) return addStepwise(request, input);
        return add(request, input.content);
      },
    }),
    operation({
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
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: readRemoval,
      async handle(input, request) {
        const { caller, identity } = request;
        const { productId, variantId, event } = input;
        const location = () => visitors.likelyProfile(identity);
        const what = { operation: 'remove', input, location };
        return once(requests, request, what, async (operation) => {
          const { profileId, answer } = await visitors.changeExisting(identity, caller.mayLink, (location) =>
            items.remove(location, identity, { productId, variantId, type: event }, operation),
          );
          return JSON.stringify({ profileId, removed: answer.removed, productId, variantId });
        });
      },
    }),
    operation({
      method: 'post',
      doc: {
        id: 'listItems',
        tag: 'Wishlist',
        summary: 'Lists the wishlist, newest item first',
        body: { schema: itemListBody, example: { identity: IDENTITY } },
        answer: itemListAnswer,
      },
      path: '/item/list',
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      onlyReads: true,
      read: readList,
      async handle(_, { identity }) {
        const { profileId, answer } = await visitors.peek(identity, (location) => items.list(location));
        return JSON.stringify({ profileId, items: answer });
      },
    }),
    operation({
      method: 'post',
      doc: {
        id: 'checkItems',
        tag: 'Wishlist',
        summary:
          'Checks which of up to 250 products are on the wishlist; without a `variantId`, in any variant',
        body: {
          schema: itemCheckBody,
          example: {
            identity: IDENTITY,
            products: [{ productId: '1001', variantId: '2002' }, { productId: '1003' }],
          },
        },
        answer: itemCheckAnswer,
      },
      path: '/item/check',
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      onlyReads: true,
      read: readItemCheck,
      async handle({ products }, { identity }) {
        const { profileId, answer } = await visitors.peek(identity, (location) =>
          items.check(location, products),
        );
        return JSON.stringify({ profileId, items: answer });
      },
    }),
    operation({
      method: 'post',
      doc: {
        id: 'countItems',
        tag: 'Wishlist',
        summary: 'Counts the items of the wishlist',
        body: { schema: itemListBody, example: { identity: IDENTITY } },
        answer: itemCountAnswer,
      },
      path: '/item/count',
      accessGroup: 'wishlist',
      maxBody: MAX_BODY,
      onlyReads: true,
      read: readList,
      async handle(_, { identity }) {
        const { profileId, answer } = await visitors.peek(identity, (location) => items.count(location));
        return JSON.stringify({ profileId, count: answer });
      },
    }),
  ];

  function add(
    { caller, identity }: Request,
    content: ItemContent,
    operation?: KeyedOperation,
  ): Promise<string> {
    return visitors
      .change(
        identity,
        caller.mayLink,
        (location) =>
          items.add(location, identity, content, { operation, isFromBrowser: caller.kind === 'browser' }),
        (customer) => assertFits(customer, content),
      )
      .then(({ profileId, answer: { itemId } }) => {
        const { productId, variantId, quantity } = content;
        return JSON.stringify({ profileId, itemId, productId, variantId, quantity });
      });
  }

  function addStepwise(request: Request, input: ItemRequest): Promise<string> {
    const { caller, identity } = request;
    const { content } = input;
    const location = () => visitors.likelyProfile(identity);
    return once(requests, request, { operation: 'add', input, location }, async (operation) => {
      if (isPersonal(identity)) {
        const profileId = await visitors.profileToChange(identity, caller.mayLink);
        const room = await assertFits(profileId, content);
        await visitors.login(identity, caller.mayLink, async () => room);
        await profiles.keep(identity, caller.mayLink, caller.kind === 'server');
      }
      return add(request, content, operation);
    });
  }
}

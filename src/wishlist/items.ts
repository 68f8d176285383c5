// Adds, removes and lists the items of a wishlist. One item per product and variant.

import { hash } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Identity } from '../identity/rules.js';
import type { AtProfile } from '../redis/at-profile.js';
import { loadScript } from '../redis/scripts.js';
import { type Item, type ItemContent, itemField, newestFirst, parseItem, storeNewItem } from './item.js';
import { ANYTHING, type Change, type Outbox, prepareEvent } from './outbox.js';

const ITEMS = loadScript('items');

/** The event that a removal creates. */
export type RemovalEvent = 'remove' | 'moveToCart';

export class Items {
  readonly #atProfile: AtProfile;
  readonly #outbox: Outbox;

  constructor(atProfile: AtProfile, outbox: Outbox) {
    this.#atProfile = atProfile;
    this.#outbox = outbox;
  }

  /** Adds an item or updates it, with an `add` event. @throws ServiceError `unavailable`, `overloaded` */
  async add(
    profileId: string,
    identity: Identity,
    content: ItemContent,
  ): Promise<{ readonly profileId: string; readonly item: Item }> {
    const { productId, variantId, source } = content;
    const field = itemField(productId, variantId);
    const fingerprint = hash('sha1', JSON.stringify(content), 'base64url');
    const fresh = storeNewItem(uuidv7(), content, new Date().toISOString());
    const added = await this.#outbox.commit(
      profileId,
      (at): Change => ({
        deed: `add ${field} ${fingerprint}`,
        hash: 'items',
        fields: [{ field, believed: ANYTHING, wanted: fresh }],
        events: [
          prepareEvent({
            type: 'add',
            origin: 'item',
            profileId: at,
            identity,
            payload: { productId, variantId, source },
          }),
        ],
        // The script sees better whether the very same item is there.
        holds: false,
      }),
    );
    return { profileId: added.profileId, item: parseItem(added.stored[0] || fresh) };
  }

  /**
   * Removes an item, with an event; `removed` is false where there was none.
   * @throws ServiceError `unavailable`, `overloaded`
   */
  async remove(
    profileId: string,
    identity: Identity,
    productId: string,
    variantId: string | null,
    type: RemovalEvent,
  ): Promise<{ readonly profileId: string; readonly removed: boolean }> {
    const field = itemField(productId, variantId);
    const removed = await this.#outbox.commit(profileId, (at, [stored = ''] = []): Change => {
      const events =
        stored === ''
          ? []
          : [
              prepareEvent({
                type,
                origin: 'item',
                profileId: at,
                identity,
                payload: type === 'moveToCart' ? cartPayload(parseItem(stored)) : { productId, variantId },
              }),
            ];
      return {
        deed: `${type} ${field}`,
        hash: 'items',
        fields: [{ field, believed: stored, wanted: '' }],
        events,
        holds: stored === '',
      };
    });
    return { profileId: removed.profileId, removed: removed.happened };
  }

  /** All items, newest first, and the profile that has them now. @throws ServiceError `unavailable` */
  async list(profileId: string): Promise<{ readonly profileId: string; readonly items: readonly Item[] }> {
    const { profileId: at, reply } = await this.#atProfile.run(
      profileId,
      ITEMS,
      (keys, id) => [keys.visits(id), keys.items(id)],
      [],
    );
    return { profileId: at, items: (reply as string[]).map(parseItem).sort(newestFirst) };
  }
}

/** What analysts see of an item that moved to the cart. */
function cartPayload(item: Item): Readonly<Record<string, unknown>> {
  const { productId, variantId, productHandle, productTitle, variantTitle } = item;
  const { quantity, price, compareAt, image } = item;
  return {
    productId,
    variantId,
    productHandle,
    productTitle,
    variantTitle,
    quantity,
    price,
    compareAt,
    image,
  };
}

// The items of a wishlist, one per product and variant. Methods return a redirect if Changes.make does.

import { newEventId, newOrderedId } from '../events/event-id.js';
import { beginEvent } from '../events/row.js';
import type { Identity } from '../identity-rules.js';
import { type ItemContent, type ItemPayload, payloadFields, type RemovalEvent } from '../item-fields.js';
import type { ItemIndex } from '../profiles/item-index.js';
import type { Location } from '../redis/location.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { type Changes, prepareEvent } from './changes.js';
import { type Item, itemField, itemIdIn, newestFirst, newItem, parseItem } from './item.js';
import { type CheckedItem, checkItems, type ProductName } from './item-check.js';
import { type ItemPage, readItemPage } from './item-pages.js';
import { countItems, readItems } from './stored-items.js';

const PAYLOADS: Readonly<Record<RemovalEvent, string>> = {
  remove: payloadFields('remove').join(' '),
  moveToCart: payloadFields('moveToCart').join(' '),
};

export interface Added {
  readonly itemId: string;
}

export interface Removed {
  readonly removed: boolean;
}

export interface AddOptions {
  readonly operation?: KeyedOperation | undefined;
  readonly isFromBrowser?: boolean;
}

export interface ItemRemoval {
  readonly productId: string;
  readonly variantId: string | null;
  readonly type: RemovalEvent;
}

export class Items {
  constructor(
    private readonly store: Store,
    private readonly changes: Changes,
    private readonly itemIndexes: readonly ItemIndex[],
  ) {}

  add(
    location: Location,
    identity: Identity,
    content: ItemContent,
    { operation, isFromBrowser = false }: AddOptions = {},
  ): Promise<Added | string> {
    const { profileId } = location;
    const { productId, variantId } = content;
    const at = operation?.at ?? Date.now();
    const itemId = newOrderedId(at);
    const [creationLine, others] = newItem(itemId, JSON.stringify(content), at, this.#notesOf(identity));
    const payload = addPayload(content);
    const who = { profileId, identity, isFromBrowser };
    const event = prepareEvent({ type: 'add', origin: 'item', ...who, payload }, at);
    const field = itemField(productId, variantId);
    const make = () =>
      this.changes
        .makeOnce(location, { kind: 'add', field, creationLine, others, event }, operation)
        .then((made) => {
          if (typeof made === 'string') return made;
          return { itemId: made.value === '' ? itemId : itemIdIn(made.value) };
        });
    return this.itemIndexes.length === 0 ? make() : this.#index(field, profileId).then(make);
  }

  async remove(
    location: Location,
    identity: Identity,
    { productId, variantId, type }: ItemRemoval,
    operation?: KeyedOperation,
  ): Promise<Removed | string> {
    const field = itemField(productId, variantId);
    const at = operation?.at ?? Date.now();
    const id = newEventId(at);
    const line = beginEvent({ id, at, type, origin: 'item', profileId: location.profileId, identity });
    const made = await this.changes.makeOnce(
      location,
      {
        kind: 'remove',
        items: [{ field, event: { type, line }, payload: PAYLOADS[type] }],
      },
      operation,
    );
    if (typeof made === 'string') return made;
    if (made.value === '1')
      for (const index of this.itemIndexes) await index.forget([field], location.profileId);
    return { removed: made.value === '1' };
  }

  async #index(field: string, profileId: string): Promise<void> {
    for (const index of this.itemIndexes) await index.add(field, profileId);
  }

  #notesOf(identity: Identity): string {
    return this.itemIndexes.map((index) => index.noteOf(identity)).join('');
  }

  page(location: Location, wanted: number): Promise<ItemPage | string> {
    return readItemPage(this.store, location, wanted);
  }

  check(location: Location, products: readonly ProductName[]): Promise<readonly CheckedItem[] | string> {
    return checkItems(this.store, location, products);
  }

  count(location: Location): Promise<number | string> {
    return countItems(this.store, location);
  }

  list(location: Location): Promise<readonly Item[] | string> {
    return listItems(this.store, location);
  }
}

export function addPayload({
  productId,
  variantId,
  source,
  productHandle,
  productTitle,
  variantTitle,
  quantity,
  price,
  compareAt,
  currencyCode,
  inventoryAvailable,
}: ItemContent): ItemPayload<'add'> {
  return {
    productId,
    variantId,
    source,
    productHandle,
    productTitle,
    variantTitle,
    quantity,
    price,
    compareAt,
    currencyCode,
    inventoryAvailable,
  };
}

/** Newest first. */
export async function listItems(store: Store, location: Location): Promise<readonly Item[] | string> {
  const stored = await readItems(store, location);
  return typeof stored === 'string' ? stored : stored.map(parseItem).sort(newestFirst);
}

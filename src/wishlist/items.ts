// Adds, removes, lists and checks the items of a wishlist. One item per product and variant.

import { eventIdOfName, newEventId, newOrderedId } from '../events/event-id.js';
import { beginEvent, encodeEvent } from '../events/row.js';
import { type Identity, namesIn } from '../identity-rules.js';
import type { Place } from '../redis/place.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { type Changes, prepareEvent } from './changes.js';
import { type Item, itemField, itemIdIn, newestFirst, newItem, parseItem } from './item.js';
import { type CheckedItem, checkItems, type ProductName } from './item-check.js';
import { type ItemContent, type ItemEvent, type ItemPayload, payloadFields } from './item-fields.js';
import type { ItemIndex } from './item-index.js';
import { type ItemPage, readItemPage } from './item-pages.js';
import { readItems } from './stored-items.js';

export type RemovalEvent = Exclude<ItemEvent, 'add'>;

/** Payload fields of a removal, which lua/wishlist/changeItems.lua copies from the item. */
const PAYLOADS: Readonly<Record<RemovalEvent, string>> = {
  remove: payloadFields('remove').join(' '),
  moveToCart: payloadFields('moveToCart').join(' '),
};

export interface Added {
  /** The existing item's id, if the product was already on the list. */
  readonly itemId: string;
}

/** See lua/wishlist/changeItems.lua. */
export type ImportOutcome = 'new' | 'there' | 'again' | 'gone';

export interface Imported {
  readonly outcome: ImportOutcome;
}

export interface Removed {
  readonly removed: boolean;
}

export interface AddOptions {
  readonly operation?: KeyedOperation | undefined;
  readonly isFromBrowser?: boolean;
}

export interface ImportedItem {
  readonly content: ItemContent;
  /** When it was wished for, milliseconds since 1970. */
  readonly at: number;
  /** `inventoryAvailable` was given. */
  readonly isStockKnown: boolean;
  /** A dry run, which changes nothing: the number of items of this list that were tried before. */
  readonly tried?: number;
}

export interface ItemRemoval {
  readonly productId: string;
  readonly variantId: string | null;
  readonly type: RemovalEvent;
}

export class Items {
  readonly #store: Store;
  readonly #changes: Changes;
  readonly #itemIndex: ItemIndex | undefined;

  /** @param itemIndex if an extra keeps one */
  constructor(store: Store, changes: Changes, itemIndex?: ItemIndex) {
    this.#store = store;
    this.#changes = changes;
    this.#itemIndex = itemIndex;
  }

  /**
   * Adds an item or updates it, with an `add` event.
   * @returns the item's id, or a redirect, see Changes.make
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_items`
   */
  add(
    place: Place,
    identity: Identity,
    content: ItemContent,
    { operation, isFromBrowser = false }: AddOptions = {},
  ): Promise<Added | string> {
    const { profileId } = place;
    const { productId, variantId } = content;
    const at = operation?.at ?? Date.now();
    const itemId = newOrderedId(at);
    const [creationLine, others] = newItem(itemId, JSON.stringify(content), at, this.#namesOf(identity));
    const payload = addPayload(content);
    const who = { profileId, identity, isFromBrowser };
    const event = prepareEvent({ type: 'add', origin: 'item', ...who, payload }, at);
    const field = itemField(productId, variantId);
    const make = () =>
      this.#changes
        .makeOnce(place, { kind: 'add', field, creationLine, others, event }, operation)
        .then((made) => {
          if (typeof made === 'string') return made;
          return { itemId: made.value === '' ? itemId : itemIdIn(made.value) };
        });
    return this.#itemIndex === undefined ? make() : this.#itemIndex.add(field, profileId).then(make);
  }

  /**
   * Adds an item that was wished for elsewhere, with an event of its own time; one that is there keeps its fields and gets
   * the earlier date. The same item is imported once.
   * @returns what became of it, or a redirect, see Changes.make
   * @throws ServiceError `unavailable`, `overloaded`, `too_many_items`
   */
  async import(
    place: Place,
    identity: Identity,
    { content, at, isStockKnown, tried }: ImportedItem,
  ): Promise<Imported | string> {
    const { profileId } = place;
    const field = itemField(content.productId, content.variantId);
    const name = `${namesIn(identity)[0]} ${field}`;
    const itemId = eventIdOfName(at, `item ${name}`);
    const addedAt = new Date(at).toISOString();
    const [, others] = newItem('', JSON.stringify(content), Date.now(), this.#namesOf(identity));
    const { inventoryAvailable, ...known } = addPayload(content);
    const payload = isStockKnown ? { ...known, inventoryAvailable } : known;
    const id = eventIdOfName(at, `import ${name}`);
    const event = { type: 'add', origin: 'import', profileId, identity, payload, id, at } as const;
    if (tried === undefined) await this.#itemIndex?.add(field, profileId);
    const made = await this.#changes.make(place, {
      kind: 'import',
      field,
      creationLine: `${itemId} ${addedAt} import`,
      others,
      event: { type: 'add', line: encodeEvent({ ...event, isFromServer: true }) },
      tried,
    });
    return typeof made === 'string' ? made : { outcome: made.value as ImportOutcome };
  }

  /**
   * Removes an item, with an event; `removed` is false if there was none.
   * @returns as `add` @throws ServiceError `unavailable`, `overloaded`
   */
  async remove(
    place: Place,
    identity: Identity,
    { productId, variantId, type }: ItemRemoval,
    operation?: KeyedOperation,
  ): Promise<Removed | string> {
    const field = itemField(productId, variantId);
    const at = operation?.at ?? Date.now();
    const id = newEventId(at);
    const line = beginEvent({ id, at, type, origin: 'item', profileId: place.profileId, identity });
    const made = await this.#changes.makeOnce(
      place,
      {
        kind: 'remove',
        items: [{ field, event: { type, line }, payload: PAYLOADS[type] }],
      },
      operation,
    );
    if (typeof made === 'string') return made;
    if (made.value === '1') await this.#itemIndex?.forget([field], place.profileId);
    return { removed: made.value === '1' };
  }

  /** Whom deliveries name, see item.ts. */
  #namesOf({ customerId, sessionId }: Identity): string {
    return this.#itemIndex === undefined ? '' : ` ${JSON.stringify([customerId, sessionId])}`;
  }

  /** See readItemPage. */
  page(place: Place, wanted: number): Promise<ItemPage | string> {
    return readItemPage(this.#store, place, wanted);
  }

  /** See checkItems. */
  check(place: Place, products: readonly ProductName[]): Promise<readonly CheckedItem[] | string> {
    return checkItems(this.#store, place, products);
  }

  /** See listItems. */
  list(place: Place): Promise<readonly Item[] | string> {
    return listItems(this.#store, place);
  }
}

function addPayload({
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

/** All items of a profile, newest first; or a redirect. @throws ServiceError `unavailable` */
export async function listItems(store: Store, place: Place): Promise<readonly Item[] | string> {
  const stored = await readItems(store, place);
  return typeof stored === 'string' ? stored : stored.map(parseItem).sort(newestFirst);
}

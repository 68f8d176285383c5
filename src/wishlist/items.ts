// The items of a wishlist, one per product and variant. Methods return a redirect if Changes.make does.

import { eventIdOfName, newEventId, newOrderedId } from '../events/event-id.js';
import { beginEvent, encodeEvent } from '../events/row.js';
import { type Identity, namesIn } from '../identity-rules.js';
import type { Location } from '../redis/location.js';
import type { KeyedOperation } from '../redis/requests.js';
import type { Store } from '../redis/store.js';
import { type Changes, prepareEvent } from './changes.js';
import { type Item, itemField, itemIdIn, newestFirst, newItem, parseItem } from './item.js';
import { type CheckedItem, checkItems, type ProductName } from './item-check.js';
import { type ItemContent, type ItemEvent, type ItemPayload, payloadFields } from './item-fields.js';
import type { ItemIndex } from './item-index.js';
import { type ItemPage, readItemPage } from './item-pages.js';
import { countItems, readItems } from './stored-items.js';

export type RemovalEvent = Exclude<ItemEvent, 'add'>;

const PAYLOADS: Readonly<Record<RemovalEvent, string>> = {
  remove: payloadFields('remove').join(' '),
  moveToCart: payloadFields('moveToCart').join(' '),
};

export interface Added {
  readonly itemId: string;
}

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
  readonly at: number;
  readonly isStockKnown: boolean;
  /** Set in a dry run: the number of items that the import would have added to this list so far. */
  readonly tried?: number;
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

  /** An existing item keeps its fields and gets the earlier time. @throws like Changes.make */
  async import(
    location: Location,
    identity: Identity,
    { content, at, isStockKnown, tried }: ImportedItem,
  ): Promise<Imported | string> {
    const { profileId } = location;
    const field = itemField(content.productId, content.variantId);
    const name = `${namesIn(identity)[0]} ${field}`;
    const itemId = eventIdOfName(at, `item ${name}`);
    const addedAt = new Date(at).toISOString();
    const [, others] = newItem('', JSON.stringify(content), Date.now(), this.#notesOf(identity));
    const { inventoryAvailable, ...known } = addPayload(content);
    const payload = isStockKnown ? { ...known, inventoryAvailable } : known;
    const id = eventIdOfName(at, `import ${name}`);
    const event = { type: 'add', origin: 'import', profileId, identity, payload, id, at } as const;
    if (tried === undefined) await this.#index(field, profileId);
    const made = await this.changes.make(location, {
      kind: 'import',
      field,
      creationLine: `${itemId} ${addedAt} import`,
      others,
      event: { type: 'add', line: encodeEvent({ ...event, isFromServer: true }) },
      tried,
    });
    return typeof made === 'string' ? made : { outcome: made.value as ImportOutcome };
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

/** Newest first. */
export async function listItems(store: Store, location: Location): Promise<readonly Item[] | string> {
  const stored = await readItems(store, location);
  return typeof stored === 'string' ? stored : stored.map(parseItem).sort(newestFirst);
}

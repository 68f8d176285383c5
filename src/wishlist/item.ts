// An item of a wishlist, and how it is stored: in a field that is named by its product and variant, as three
// lines. lua/wishlist.lua keeps the first one, the creation line, when the item is added again.
//
//   <itemId> <addedAt>
//   <updatedAt>
//   <content, JSON>
//
// With PRODUCT_ALERTS the second line goes on with whom deliveries name, ` ["<customer>","<session>"]` as they were sent, and,
// once a price or stock has changed, with what the wisher was told last, ` <price> <0 or 1: in stock> <version of the product>`.
// An addition of the same item replaces all of the line: alerts then start from the item's own price and stock.

import { type ListedItem, NO_FIELDS } from './item-fields.js';

/** An item as it is read: what was not given is null. */
export interface Item extends ListedItem {
  /** UUID v7: of two items added in the same millisecond the newer one has the greater id. */
  readonly itemId: string;
  /** ISO 8601. */
  readonly addedAt: string;
  readonly updatedAt: string;
}

/** The field of a product and variant; ids that are not Shopify's may have colons of their own. */
export function itemField(productId: string, variantId: string | null): string {
  return `${productId.replaceAll('%', '%25').replaceAll(':', '%3A')}:${variantId ?? ''}`;
}

/** An item as it is stored where it is new: its first line, and the others. @param json its content @param names see above */
export function newItem(
  itemId: string,
  json: string,
  at: number,
  names = '',
): readonly [creationLine: string, others: string] {
  const now = isoOf(at);
  return [`${itemId} ${now}`, `${now}${names}\n${json}`];
}

let time = -1;
let iso = '';

/** Made once a millisecond: it takes longer than all else here. */
function isoOf(at: number): string {
  if (at !== time) {
    time = at;
    iso = new Date(at).toISOString();
  }
  return iso;
}

/** The item's id. */
export function itemIdIn(creationLine: string): string {
  return creationLine.slice(0, creationLine.indexOf(' '));
}

/** In the order of an answer. What is stored may lack fields: those that were not given, and new ones. */
const EMPTY = { itemId: '', ...NO_FIELDS, addedAt: '', updatedAt: '' };

export function parseItem(stored: string): Item {
  const [creationLine, updated, content] = stored.split('\n') as [string, string, string];
  const [updatedAt] = updated.split(' ', 1) as [string];
  const [itemId, addedAt] = creationLine.split(' ') as [string, string];
  return Object.assign({ ...EMPTY, itemId, addedAt, updatedAt }, JSON.parse(content)) as Item;
}

/** Orders items newest first. */
export function newestFirst(
  a: Pick<Item, 'addedAt' | 'itemId'>,
  b: Pick<Item, 'addedAt' | 'itemId'>,
): number {
  if (a.addedAt !== b.addedAt) return a.addedAt < b.addedAt ? 1 : -1;
  return a.itemId < b.itemId ? 1 : -1;
}

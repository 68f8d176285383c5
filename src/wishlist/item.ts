// An item of a wishlist. It is stored in a hash field named by product and variant, as three lines. If the item is added again,
// lua/wishlist/changeItems.lua keeps the first one, the creation line.
//
//   <itemId> <addedAt>
//   <updatedAt>
//   <content, JSON>
//
// The creation line of an imported item ends in ` import`.
//
// With PRODUCT_ALERTS the second line continues with the ids for deliveries, ` ["<customer>","<session>"]`, and, after a change of
// price or stock, with the last reported state, ` <price> <0 or 1: in stock> <version of the product>`. If the item is added
// again, the line is replaced: alerts then compare with the item's own price and stock.

import { type ListedItem, NO_FIELDS } from './item-fields.js';

/** Absent fields are null. */
export interface Item extends ListedItem {
  /** UUID v7, ascending within a millisecond. */
  readonly itemId: string;
  /** ISO 8601. */
  readonly addedAt: string;
  readonly updatedAt: string;
}

/** Ids that are not Shopify's may contain colons. */
export function itemField(productId: string, variantId: string | null): string {
  return `${productId.replaceAll('%', '%25').replaceAll(':', '%3A')}:${variantId ?? ''}`;
}

/** @param names ids for deliveries */
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

/** Cached per millisecond: slower than everything else here. */
function isoOf(at: number): string {
  if (at !== time) {
    time = at;
    iso = new Date(at).toISOString();
  }
  return iso;
}

export function itemIdIn(creationLine: string): string {
  return creationLine.slice(0, creationLine.indexOf(' '));
}

/** A stored item lacks sparse and newer fields. */
const EMPTY = { itemId: '', ...NO_FIELDS, addedAt: '', updatedAt: '' };

export function parseItem(stored: string): Item {
  const [creationLine, updated, content] = stored.split('\n') as [string, string, string];
  const [updatedAt] = updated.split(' ', 1) as [string];
  const [itemId, addedAt] = creationLine.split(' ') as [string, string];
  return Object.assign({ ...EMPTY, itemId, addedAt, updatedAt }, JSON.parse(content)) as Item;
}

export function newestFirst(
  a: Pick<Item, 'addedAt' | 'itemId'>,
  b: Pick<Item, 'addedAt' | 'itemId'>,
): number {
  if (a.addedAt !== b.addedAt) return a.addedAt < b.addedAt ? 1 : -1;
  return a.itemId < b.itemId ? 1 : -1;
}

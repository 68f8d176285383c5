// An item of a wishlist, stored in a hash field named by product and variant, as three lines:
//
//   <itemId> <addedAt>     the creation line, which updates keep; an extra may mark it by a third word: if the item is
//                          removed, the profile gets the fact `gone:<field>`
//   <updatedAt>            with notes of extras, each after a space
//   <content, JSON>

import { type ListedItem, NO_FIELDS } from '../item-fields.js';

/** Absent fields are null. */
export interface Item extends ListedItem {
  readonly itemId: string;
  /** ISO 8601. */
  readonly addedAt: string;
  readonly updatedAt: string;
}

/** Escapes colons, which ids that aren't Shopify's may contain. */
export function itemField(productId: string, variantId: string | null): string {
  return `${productId.replaceAll('%', '%25').replaceAll(':', '%3A')}:${variantId ?? ''}`;
}

export function newItem(
  itemId: string,
  json: string,
  at: number,
  notes = '',
): readonly [creationLine: string, others: string] {
  const now = isoOf(at);
  return [`${itemId} ${now}`, `${now}${notes}\n${json}`];
}

let time = -1;
let iso = '';

/** Caches the text of a millisecond, because toISOString is slow. */
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

/** Fields that a stored item may lack, because they are sparse, or newer than the item. */
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

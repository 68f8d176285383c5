// What a change of a product means to one who wished for it: whether the price fell, whether it is back in stock.
//
// Both are measured by what the wisher was told last; before that, by what the item says itself. A price has fallen where it is
// also below the one that the product was wished at. What was told is kept in the item (src/wishlist/item.ts), and each of these
// steps changes it together with the event, so that a step is made once, by whichever process.

import { parseAmount } from '../events/amount.js';
import { itemField } from '../wishlist/item.js';
import type { ItemContent } from '../wishlist/item-fields.js';

export const ALERT_TYPES = ['priceDrop', 'backInStock'] as const;
export type AlertType = (typeof ALERT_TYPES)[number];

/** A variant as it is now. */
export interface Variant {
  /** Null of a product that has no variants. */
  readonly variantId: string | null;
  /** Decimal text with two decimals. */
  readonly price: string;
  /** Null where it is not known. */
  readonly currencyCode: string | null;
  readonly inventoryAvailable: boolean;
}

export interface Product {
  readonly productId: string;
  readonly productHandle: string;
  readonly productTitle: string;
  readonly variants: readonly Variant[];
}

/** An item of a wishlist, as far as alerts need it. */
export interface Wish {
  /** As it is stored. */
  readonly stored: string;
  readonly item: ItemContent;
  readonly customerId: string | null;
  readonly sessionId: string | null;
  /** What its second line begins with. */
  readonly start: string;
  readonly told: Told | undefined;
}

interface Told {
  readonly price: string;
  readonly inventoryAvailable: boolean;
  /** Of the product. */
  readonly version: number;
}

/** A change of an item: its second line from then on, and what its wisher is told, if anything. */
export interface Step {
  readonly told: string;
  readonly type: AlertType | undefined;
}

/** <updated at>, whom deliveries name, what was told. */
const SECOND_LINE = /^(\S+)(?: (\[.*\]))?(?: (\d+\.\d\d) ([01]) (\d+))?$/;

export function readWish(stored: string): Wish {
  const [, second = '', content = ''] = stored.split('\n');
  const [, updatedAt = '', names = '[]', price, available, version] = SECOND_LINE.exec(second) ?? [];
  const [customerId = null, sessionId = null] = JSON.parse(names) as (string | null)[];
  const told =
    price === undefined
      ? undefined
      : { price, inventoryAvailable: available === '1', version: Number(version) };
  return {
    stored,
    item: JSON.parse(content) as ItemContent,
    customerId,
    sessionId,
    start: `${updatedAt} ${names}`,
    told,
  };
}

/**
 * Fields of items -> the variant that each of them follows. An item without a variant follows the product: the variant that
 * has no id, else the lowest price, in stock where any variant is.
 */
export function variantsByField({ productId, variants }: Product): Map<string, Variant> {
  const byField = new Map(variants.map((one) => [itemField(productId, one.variantId), one]));
  const whole = itemField(productId, null);
  const [first] = variants;
  if (!byField.has(whole) && first !== undefined) {
    const priced = variants.filter((one) => isComparable(one, first));
    const { price } = priced.reduce((low, one) => (isLower(one.price, low.price) ? one : low));
    const inventoryAvailable = variants.some((one) => one.inventoryAvailable);
    byField.set(whole, { ...first, variantId: null, price, inventoryAvailable });
  }
  return byField;
}

/**
 * @param version of the product: what was told of a newer one stays
 * @param since an older version than this one may still be told of by another process: then it finds this one in each item
 */
export function stepsOf({ item, start, told }: Wish, now: Variant, version: number, since: number): Step[] {
  if (told !== undefined && told.version > version) return [];
  const before = told ?? item;
  const price = isComparable(item, now) ? now.price : before.price;
  const hasFallen = isLower(price, item.price) && isLower(price, before.price);
  const isBack = now.inventoryAvailable && !before.inventoryAvailable;
  const isSame = price === before.price && now.inventoryAvailable === before.inventoryAvailable;
  if (isSame && (told?.version ?? 0) >= since) return [];
  const line = (available: boolean) => `${start} ${price} ${available ? 1 : 0} ${version}`;
  const last = line(now.inventoryAvailable);
  if (!hasFallen) return [{ told: last, type: isBack ? 'backInStock' : undefined }];
  if (!isBack) return [{ told: last, type: 'priceDrop' }];
  return [
    { told: line(false), type: 'priceDrop' },
    { told: last, type: 'backInStock' },
  ];
}

/** Amounts of two currencies are not, where both are known. */
function isComparable(
  one: { readonly currencyCode?: string | null | undefined },
  other: typeof one,
): boolean {
  const [a, b] = [one, other].map(({ currencyCode }) => currencyCode?.toUpperCase());
  return a === undefined || b === undefined || a === b;
}

function isLower(one: string, other: string): boolean {
  const [a, b] = [parseAmount(one), parseAmount(other)];
  return a !== undefined && b !== undefined && a < b;
}

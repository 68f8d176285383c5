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
  /** Upper case. Null if the caller gave none: then it is the shop's. */
  readonly currencyCode: string | null;
  /** Null if it is unknown: then the stock stays what it was. */
  readonly inventoryAvailable: boolean | null;
}

export interface Product {
  readonly productId: string;
  readonly productHandle: string;
  readonly productTitle: string;
  /** While it is false nobody is told anything, and what was told stays. */
  readonly isPublished: boolean;
  /** Whether these are all its variants. */
  readonly isWhole: boolean;
  readonly variants: readonly Variant[];
}

/** What one item's product costs now, and whether it is in stock. */
export interface Offer {
  readonly price: string;
  /** Null if it is unknown. */
  readonly currencyCode: string | null;
  /** Whether it is the currency of the item. */
  readonly isComparable: boolean;
  readonly inventoryAvailable: boolean | null;
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
const SECOND_LINE = /^(\S+)(?: (\[.*\]))?(?: (\d+\.\d\d) ([01]) (\d+))?$/s;

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

/** Fields of items -> the variants that each of them follows: its own, or all if the item has no variant and all are given. */
export function variantsByField(product: Product): Map<string, readonly Variant[]> {
  const { productId, isWhole, variants } = product;
  const byField = new Map(variants.map((one) => [itemField(productId, one.variantId), [one]]));
  const whole = itemField(productId, null);
  if (isWhole && variants.length > 0 && !byField.has(whole)) byField.set(whole, [...variants]);
  return byField;
}

/**
 * The lowest price in the item's currency, in stock if any variant is. Two unknown currencies are not the same one.
 * @param variants at least one @param shopCurrency of items and variants without a currency, upper case
 */
export function offerOf(
  { item }: Wish,
  variants: readonly Variant[],
  shopCurrency: string | null,
): Offer | undefined {
  const currencyOf = (one: Pick<Variant, 'currencyCode'>) => one.currencyCode ?? shopCurrency;
  const wished = item.currencyCode ?? shopCurrency;
  const priced = variants.filter((one) => wished !== null && currencyOf(one) === wished);
  const [first] = priced.length > 0 ? priced : variants;
  if (first === undefined) return undefined;
  const { price } = priced.reduce((low, one) => (isLower(one.price, low.price) ? one : low), first);
  const stocks = variants.map(({ inventoryAvailable }) => inventoryAvailable);
  return {
    price,
    currencyCode: currencyOf(first),
    isComparable: priced.length > 0,
    inventoryAvailable: stocks.includes(true) || (stocks.includes(null) ? null : false),
  };
}

/**
 * @param now undefined if nothing is known that could be told
 * @param version of the product: what was told of a newer one stays
 * @param since if another process may still be alerting for an older version, stamp every item so that it skips them
 */
export function stepsOf(
  { item, start, told }: Wish,
  now: Offer | undefined,
  version: number,
  since: number,
): Step[] {
  if (told !== undefined && told.version > version) return [];
  const before = told ?? item;
  const price = now?.isComparable ? now.price : before.price;
  const inventoryAvailable = now?.inventoryAvailable ?? before.inventoryAvailable;
  const hasFallen = isLower(price, item.price) && isLower(price, before.price);
  const isBack = inventoryAvailable && !before.inventoryAvailable;
  const isSame = price === before.price && inventoryAvailable === before.inventoryAvailable;
  if (isSame && (told?.version ?? 0) >= since) return [];
  const line = (available: boolean) => `${start} ${price} ${available ? 1 : 0} ${version}`;
  const last = line(inventoryAvailable);
  if (!hasFallen) return [{ told: last, type: isBack ? 'backInStock' : undefined }];
  if (!isBack) return [{ told: last, type: 'priceDrop' }];
  return [
    { told: line(false), type: 'priceDrop' },
    { told: last, type: 'backInStock' },
  ];
}

function isLower(one: string, other: string): boolean {
  const [a, b] = [parseAmount(one), parseAmount(other)];
  return a !== undefined && b !== undefined && a < b;
}

// Decides which alerts a product's change means for a saved item. The product is compared with its price and stock at
// the last change, which the item stores as the reported state, or else with the item. A price drop also needs a price
// below the item's. The reported state changes atomically with the alert's event, so each alert is sent once.

import { parseAmount } from '../../events/amount.js';
import type { ItemContent } from '../../item-fields.js';
import { itemField } from '../../wishlist/item.js';

export const ALERT_TYPES = ['priceDrop', 'backInStock'] as const;
export type AlertType = (typeof ALERT_TYPES)[number];

export interface Variant {
  readonly variantId: string | null;
  readonly price: string;
  /** In upper case; null means the shop's currency. */
  readonly currencyCode: string | null;
  /** Null if unknown: then the stock counts as unchanged. */
  readonly inventoryAvailable: boolean | null;
}

export interface Product {
  readonly productId: string;
  readonly productHandle: string;
  readonly productTitle: string;
  readonly image: string | null;
  /** If false, no alerts are sent, and items keep their reported prices and stock. */
  readonly isPublished: boolean;
  readonly isWhole: boolean;
  readonly variants: readonly Variant[];
}

export interface Offer {
  readonly price: string;
  readonly currencyCode: string | null;
  readonly isComparable: boolean;
  readonly inventoryAvailable: boolean | null;
}

export interface Wish {
  readonly stored: string;
  readonly item: ItemContent;
  readonly customerId: string | null;
  readonly sessionId: string | null;
  readonly start: string;
  readonly reported: Reported | undefined;
}

interface Reported {
  readonly price: string;
  readonly inventoryAvailable: boolean;
  readonly version: number;
}

export interface Step {
  readonly secondLine: string;
  readonly type: AlertType | undefined;
}

/**
 * An item's second line (src/wishlist/item.ts): its time, then ids for deliveries, ` ["<customer>","<session>"]`, and
 * after a change of price or stock the reported state, ` <price> <0, or 1 if in stock> <version of the product>`. If the
 * item is added again, that state is removed, and alerts compare with the item's new price and stock.
 */
const SECOND_LINE = /^(\S+)(?: (\[.*\]))?(?: (\d+\.\d\d) ([01]) (\d+))?$/s;

export function readWish(stored: string): Wish {
  const [, second = '', content = ''] = stored.split('\n');
  const [, updatedAt = '', names = '[]', price, available, version] = SECOND_LINE.exec(second) ?? [];
  const [customerId = null, sessionId = null] = JSON.parse(names) as (string | null)[];
  const reported =
    price === undefined
      ? undefined
      : { price, inventoryAvailable: available === '1', version: Number(version) };
  return {
    stored,
    item: JSON.parse(content) as ItemContent,
    customerId,
    sessionId,
    start: `${updatedAt} ${names}`,
    reported,
  };
}

/** Maps each item's field to its variants. An item without a variant follows all variants of the product. */
export function variantsByField(product: Product): Map<string, readonly Variant[]> {
  const { productId, isWhole, variants } = product;
  const byField = new Map(variants.map((one) => [itemField(productId, one.variantId), [one]]));
  const whole = itemField(productId, null);
  if (isWhole && variants.length > 0 && !byField.has(whole)) byField.set(whole, [...variants]);
  return byField;
}

/**
 * Returns the lowest price in the item's currency, and whether any variant is in stock. Prices are not comparable if a
 * currency is unknown.
 * @param shopCurrency of items and variants without a currency
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
 * @param now the current offer; undefined if there is none, or if the product isn't published
 * @param version of the product; items with a newer reported version are skipped
 * @param since unchanged items with an older reported version are stamped with `version`, too, so that a process that
 *   still sends older alerts skips them
 */
export function stepsOf(
  { item, start, reported }: Wish,
  now: Offer | undefined,
  version: number,
  since: number,
): Step[] {
  if (reported !== undefined && reported.version > version) return [];
  const before = reported ?? item;
  const price = now?.isComparable ? now.price : before.price;
  const inventoryAvailable = now?.inventoryAvailable ?? before.inventoryAvailable;
  const hasFallen = isLower(price, item.price) && isLower(price, before.price);
  const isBack = inventoryAvailable && !before.inventoryAvailable;
  const isSame = price === before.price && inventoryAvailable === before.inventoryAvailable;
  if (isSame && (reported?.version ?? 0) >= since) return [];
  const line = (available: boolean) => `${start} ${price} ${available ? 1 : 0} ${version}`;
  const last = line(inventoryAvailable);
  if (!hasFallen) return [{ secondLine: last, type: isBack ? 'backInStock' : undefined }];
  if (!isBack) return [{ secondLine: last, type: 'priceDrop' }];
  return [
    { secondLine: line(false), type: 'priceDrop' },
    { secondLine: last, type: 'backInStock' },
  ];
}

function isLower(one: string, other: string): boolean {
  const [a, b] = [parseAmount(one), parseAmount(other)];
  return a !== undefined && b !== undefined && a < b;
}

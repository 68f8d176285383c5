// A product as a shop's server puts it, or as Shopify's webhook has it -> what its wishers are told by.
//
// Of Shopify's product only what makes it one is insisted on, since Shopify drops subscribers that answer errors; a variant
// without a price is left out. A webhook names no currency: its prices are those of the shop.
// https://shopify.dev/docs/api/admin-rest/latest/resources/product

import { inCents, parseAmount } from '../events/amount.js';
import { isId, trimmed } from '../identity-rules.js';
import type { Product, Variant } from '../products/alert.js';
import { optionalId, printable, readId } from './requests.js';
import { productBody, shopifyProductBody } from './schemas.js';
import { type Fields, idOf, isFields, parseExactly } from './shopify.js';
import { compile } from './validator.js';

interface Named<Variants> {
  readonly productHandle: string;
  readonly productTitle: string;
  readonly variants: Variants;
}
type RawVariant = Pick<Variant, 'price' | 'inventoryAvailable'> & {
  readonly variantId?: string | number | null;
  readonly currencyCode?: string | null;
};

const checkProduct = compile<Named<RawVariant[]> & { productId: string | number }>(productBody);
const checkShopifyProduct = compile<
  Fields & { id: string | number; handle: string; title: string; variants: unknown[] }
>(shopifyProductBody);

/** @throws ServiceError `invalid_request` */
export function readProduct(body: unknown): Product {
  const { productId, productHandle, productTitle, variants } = checkProduct(body);
  return {
    productId: readId(productId),
    productHandle: trimmed(productHandle),
    productTitle: printable(productTitle),
    variants: variants.map(({ variantId, price, currencyCode, inventoryAvailable }) => ({
      variantId: optionalId(variantId),
      price,
      currencyCode: currencyCode ?? null,
      inventoryAvailable,
    })),
  };
}

export interface ShopifyProduct {
  readonly product: Product;
  /** Milliseconds since 1970; undefined where the product does not say. */
  readonly updatedAt: number | undefined;
}

/** @throws ServiceError `invalid_json`, `invalid_request` */
export function readShopifyProduct(bytes: Buffer): ShopifyProduct {
  const given = checkShopifyProduct(parseExactly(bytes));
  const updatedAt = typeof given['updated_at'] === 'string' ? Date.parse(given['updated_at']) : Number.NaN;
  const isActive = (given['status'] ?? 'active') === 'active';
  return {
    product: {
      productId: readId(given.id),
      productHandle: trimmed(given.handle),
      productTitle: printable(given.title),
      variants: given.variants.filter(isFields).flatMap((one) => readVariant(one, isActive)),
    },
    updatedAt: Number.isNaN(updatedAt) ? undefined : updatedAt,
  };
}

/** None where it has no price. */
function readVariant(given: Fields, isActive: boolean): Variant[] {
  const { id, price } = given;
  const amount = parseAmount(
    typeof price === 'number' ? price.toFixed(2) : typeof price === 'string' ? price : null,
  );
  const variantId = idOf(id, (text) => isId('ProductVariant', text));
  if (amount === undefined || amount < 0n || variantId === null) return [];
  return [
    {
      variantId,
      price: inCents(amount),
      currencyCode: null,
      inventoryAvailable: isActive && isAvailable(given),
    },
  ];
}

/** Whether it can be bought: its stock is not tracked, or does not matter, or there is some. */
function isAvailable({ inventory_management, inventory_policy, inventory_quantity }: Fields): boolean {
  const isTracked = typeof inventory_management === 'string' && inventory_management !== '';
  return !isTracked || inventory_policy === 'continue' || Number(inventory_quantity) > 0;
}

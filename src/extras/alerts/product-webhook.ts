// Parses products of PUT /products and of Shopify's webhook. Shopify drops endpoints that answer errors, so the webhook
// ignores bodies that aren't products, and variants without a price. Its body may lack variants; `variant_gids` has the
// ids of all.
// https://shopify.dev/docs/api/admin-rest/latest/resources/product

import { ServiceError } from '../../errors.js';
import { fitsColumn, inCents, parseAmount } from '../../events/amount.js';
import { MAX_IMAGE_BYTES } from '../../field-schemas.js';
import { isId, trimmed } from '../../identity-rules.js';
import { optionalId, printable, readId } from '../../validation/requests.js';
import { type Fields, idOf, isFields, parseExactly } from '../../validation/shopify.js';
import { compile } from '../../validation/validator.js';
import type { Product, Variant } from './alert.js';
import { productBody, shopifyProductBody } from './schemas.js';

interface Named<Variants> {
  readonly productHandle: string;
  readonly productTitle: string;
  readonly image?: string | null;
  readonly variants: Variants;
}
type RawVariant = Pick<Variant, 'price'> & {
  readonly inventoryAvailable: boolean;
  readonly variantId?: string | number | null;
  readonly currencyCode?: string | null;
};

const checkProduct = compile<
  Named<RawVariant[]> & { productId: string | number; isPublished?: boolean | null }
>(productBody);
const checkShopifyProduct = compile<
  Fields & { id: string | number; handle: string; title: string; variants: unknown[] }
>(shopifyProductBody);

export function readProduct(body: unknown): Product {
  const { productId, productHandle, productTitle, image, variants, isPublished } = checkProduct(body);
  return {
    productId: readId(productId),
    productHandle: trimmed(productHandle),
    productTitle: printable(productTitle),
    image: image ?? null,
    isPublished: isPublished ?? true,
    isWhole: true,
    variants: variants.map(({ variantId, price, currencyCode, inventoryAvailable }) => ({
      variantId: optionalId(variantId),
      price,
      currencyCode: currencyCode?.toUpperCase() ?? null,
      inventoryAvailable,
    })),
  };
}

export interface ShopifyProduct {
  readonly product: Product;
  /** In milliseconds since 1970; undefined if the body has no valid time. */
  readonly updatedAt: number | undefined;
}

export function readShopifyProduct(bytes: Buffer): ShopifyProduct | undefined {
  const given = shopifyProductIn(bytes);
  if (given === undefined) return undefined;
  const { status, published_at, updated_at, variant_gids } = given;
  const updatedAt = typeof updated_at === 'string' ? Date.parse(updated_at) : Number.NaN;
  const all = Array.isArray(variant_gids) ? variant_gids.length : 0;
  const variants = given.variants.filter(isFields).flatMap(readVariant);
  return {
    product: {
      productId: readId(given.id),
      productHandle: trimmed(given.handle),
      productTitle: printable(given.title),
      image: imageOf(given),
      isPublished: (status ?? 'active') === 'active' && published_at !== null,
      isWhole: variants.length >= Math.max(all, given.variants.length),
      variants,
    },
    updatedAt: Number.isNaN(updatedAt) ? undefined : updatedAt,
  };
}

/** The featured image: `image.src`. */
function imageOf({ image }: Fields): string | null {
  const src = isFields(image) ? image['src'] : undefined;
  return typeof src === 'string' && Buffer.byteLength(src) <= MAX_IMAGE_BYTES ? printable(src) : null;
}

function shopifyProductIn(bytes: Buffer) {
  try {
    return checkShopifyProduct(parseExactly(bytes));
  } catch (error) {
    if (error instanceof ServiceError) return undefined;
    throw error;
  }
}

function readVariant(given: Fields): Variant[] {
  const { id, price } = given;
  const amount = parseAmount(
    typeof price === 'number' ? price.toFixed(2) : typeof price === 'string' ? price : null,
  );
  const variantId = idOf(id, (text) => isId('ProductVariant', text));
  if (amount === undefined || amount < 0n || !fitsColumn(amount) || variantId === null) return [];
  return [{ variantId, price: inCents(amount), currencyCode: null, inventoryAvailable: stockOf(given) }];
}

/** Also true if the variant is sold without stock, or its stock isn't tracked. Null if the body has no quantity. */
function stockOf({ inventory_management, inventory_policy, inventory_quantity }: Fields): boolean | null {
  if (inventory_policy === 'continue' || inventory_management === null) return true;
  return /^-?\d+$/.test(String(inventory_quantity)) ? Number(inventory_quantity) > 0 : null;
}

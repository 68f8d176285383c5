// Encodes a product's change as a row.

import { eventIdOfName } from '../../events/event-id.js';
import { columnText, field, payloadText } from '../../events/row.js';
import { normaliseId } from '../../identity-rules.js';

export interface ProductState {
  readonly productId: string;
  readonly productHandle: string;
  readonly productTitle: string;
  readonly image?: string | null;
  readonly variants: readonly {
    readonly variantId: string | null;
    readonly price: string;
    readonly currencyCode: string | null;
    readonly inventoryAvailable: boolean | null;
  }[];
}

/** A version has one event_id. A price in the shop's currency also counts for items without a currency. */
export function encodeProduct(product: ProductState, version: number, shopCurrency: string | null): string {
  const { productId, productHandle, productTitle, image } = product;
  const variants = product.variants.flatMap((one) => {
    const own = one.currencyCode?.toUpperCase() ?? shopCurrency ?? '';
    const currencies = new Set(own === shopCurrency ? [own, ''] : [own]);
    return Array.from(currencies, (code) => [one.variantId ?? '', code, one.price, one.inventoryAvailable]);
  });
  const picture = image ? { image: columnText(image) } : {};
  const stated = { productTitle: columnText(productTitle), ...picture, variants };
  const payload = payloadText(JSON.stringify(stated));
  return (
    `{"event_id":"${eventIdOfName(version, `product ${productId}`)}","type":"product","occurred_at":${version},` +
    '"profile_id":"","origin":"product"' +
    field('product_id', normaliseId(columnText(productId))) +
    field('product_handle', productHandle) +
    `,"payload":${JSON.stringify(payload)}}\n`
  );
}

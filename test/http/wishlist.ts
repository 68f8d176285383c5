// Items that the tests of wishlists send.

import type { GivenItem } from '../../src/item-fields.js';

export const CONTENT = {
  productId: 'gid://shopify/Product/1001',
  variantId: 'gid://shopify/ProductVariant/2002',
  productHandle: 'red-shoe',
  productTitle: 'Red shoe',
  variantTitle: '42',
  image: 'https://cdn.shop.example/red.png',
  price: '79.90',
  compareAt: '99.90',
  inventoryAvailable: true,
  quantity: 2,
  source: 'collection',
  currencyCode: 'EUR',
  countryCode: 'DE',
  properties: { size: 42, 'engraving ✎': ['a', { b: null }] },
} satisfies Required<GivenItem>;

export function itemOf(identity: object, changes: Readonly<Record<string, unknown>> = {}): object {
  return { identity: { device: 'desktop', ...identity }, ...CONTENT, ...changes };
}

export function without(body: object, field: string): object {
  return Object.fromEntries(Object.entries(body).filter(([name]) => name !== field));
}

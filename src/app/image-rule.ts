// Which images a shared wishlist and the dashboard show, since a stranger's list must not make other browsers load
// anything else; and the addresses of product pages.

import type { ImageRule } from '../http/html.js';
import type { ServeConfig } from './settings.js';

export function imageRuleOf({
  IMAGE_HOSTS,
  SHOP_URL,
}: Pick<ServeConfig, 'IMAGE_HOSTS' | 'SHOP_URL'>): ImageRule {
  const usual = [new URL(SHOP_URL).host, '*.myshopify.com', 'cdn.shopify.com'];
  return { url: SHOP_URL, imageHosts: IMAGE_HOSTS.length > 0 ? IMAGE_HOSTS : usual };
}

/** A product page's address, with `{handle}` and `{variant}`. */
export function productUrlOf({
  PRODUCT_URL,
  SHOP_URL,
}: Pick<ServeConfig, 'PRODUCT_URL' | 'SHOP_URL'>): string {
  return PRODUCT_URL || `${SHOP_URL}/products/{handle}?variant={variant}`;
}

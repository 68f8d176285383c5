// Which images a shared wishlist and the dashboard show, since a stranger's list must not make other browsers load
// anything else.

import type { ImageRule } from '../http/html.js';
import type { ServeConfig } from './settings.js';

export function imageRuleOf({
  IMAGE_HOSTS,
  SHOP_URL,
}: Pick<ServeConfig, 'IMAGE_HOSTS' | 'SHOP_URL'>): ImageRule {
  const usual = [new URL(SHOP_URL).host, '*.myshopify.com', 'cdn.shopify.com'];
  return { url: SHOP_URL, imageHosts: IMAGE_HOSTS.length > 0 ? IMAGE_HOSTS : usual };
}

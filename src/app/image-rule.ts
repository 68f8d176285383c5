// Which images a shared wishlist shows. A stranger's list must not make a friend's browser load anything else.

import type { ServeConfig } from './settings.js';

export interface ImageRule {
  /** Address of the shop, for relative addresses. */
  readonly url: string;
  /** Hosts of images; `*.` stands for all subdomains. */
  readonly imageHosts: readonly string[];
}

export function imageRuleOf({
  IMAGE_HOSTS,
  SHOP_URL,
}: Pick<ServeConfig, 'IMAGE_HOSTS' | 'SHOP_URL'>): ImageRule {
  const hosts = IMAGE_HOSTS.length > 0 ? IMAGE_HOSTS : undefined;
  return {
    url: SHOP_URL,
    imageHosts: hosts ?? [new URL(SHOP_URL).host, '*.myshopify.com', 'cdn.shopify.com'],
  };
}

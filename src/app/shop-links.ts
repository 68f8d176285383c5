// Links into the shop: of products, and of shared wishlists.

import type { Config } from '../config.js';
import type { ImageRule } from '../http/html.js';
import { imageRuleOf, productUrlOf } from './image-rule.js';

type LinkSettings = Pick<Config, 'SHOP_URL' | 'APP_PROXY_PATH' | 'SHARE_URL' | 'PRODUCT_URL'>;

export interface ShopLinks {
  readonly imageRule: ImageRule;
  product(productHandle: string, variantId: string | null): string;
  share(code: string): string;
}

/** @returns an address with `{code}` */
export function shareUrlOf({
  SHARE_URL,
  SHOP_URL,
  APP_PROXY_PATH,
}: Omit<LinkSettings, 'PRODUCT_URL'>): string {
  return SHARE_URL || `${SHOP_URL}/apps/${APP_PROXY_PATH}/wishlist/share/{code}`;
}

export function shopLinks(config: LinkSettings & Pick<Config, 'IMAGE_HOSTS'>): ShopLinks {
  const [productUrl, shareUrl] = [productUrlOf(config), shareUrlOf(config)];
  return {
    imageRule: imageRuleOf(config),
    product: (productHandle, variantId) => productLink(productUrl, productHandle, variantId),
    share: (code) => shareUrl.replaceAll('{code}', encodeURIComponent(code)),
  };
}

export function productLink(productUrl: string, productHandle: string, variantId: string | null): string {
  const link = new URL(productUrl);
  if (variantId === null)
    for (const [name, value] of [...link.searchParams])
      if (value === '{variant}') link.searchParams.delete(name);
  return link.href.replace(/(?:\{|%7B)(handle|variant)(?:\}|%7D)/g, (_, name) =>
    encodeURIComponent(name === 'handle' ? productHandle : (variantId ?? '')),
  );
}

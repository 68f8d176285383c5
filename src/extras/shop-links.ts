// Links into the shop: of products, and of shared wishlists.

import { imageRuleOf } from '../app/image-rule.js';
import { shareUrlOf } from '../app/share-url.js';
import type { Config } from '../config.js';
import type { ImageRule } from '../http/html.js';

type LinkSettings = Pick<Config, 'SHOP_URL' | 'APP_PROXY_PATH' | 'SHARE_URL' | 'PRODUCT_URL'>;

export interface ShopLinks {
  readonly imageRule: ImageRule;
  product(productHandle: string, variantId: string | null): string;
  share(code: string): string;
}

/** A product page's address, with `{handle}` and `{variant}`. */
export function productUrlOf({
  PRODUCT_URL,
  SHOP_URL,
}: Pick<LinkSettings, 'PRODUCT_URL' | 'SHOP_URL'>): string {
  return PRODUCT_URL || `${SHOP_URL}/products/{handle}?variant={variant}`;
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

// The address of shared wishlists.

import type { ServeConfig } from './settings.js';

/** @returns an address with `{code}` */
export function shareUrlOf({
  SHARE_URL,
  SHOP_URL,
  APP_PROXY_PATH,
}: Pick<ServeConfig, 'SHARE_URL' | 'SHOP_URL' | 'APP_PROXY_PATH'>): string {
  return SHARE_URL || `${SHOP_URL}/apps/${APP_PROXY_PATH}/wishlist/share/{code}`;
}

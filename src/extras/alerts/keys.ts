// The keys of product alerts.

import type { Keys } from '../../redis/keys.js';

export const SUBSCRIBERS_TAG = 'wish';

export function alertKeys({ prefix }: Pick<Keys, 'prefix'>) {
  return {
    /** hash: profiles that may have saved a variant -> when they were added, milliseconds since 1970 */
    subscribers: (digest: string) => `${prefix}{${SUBSCRIBERS_TAG}:${digest}}`,
    /** hash: see lua/extras/alerts/journalProduct.lua */
    products: `${prefix}{products}:open`,
    /** sorted set: products -> last version, milliseconds since 1970 */
    productVersions: `${prefix}{products}:versions`,
  };
}

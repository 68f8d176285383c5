// Identities and items as requests have them, for tests that use few of their fields.

import type { Identity } from '../../src/identity-rules.js';
import type { ItemContent } from '../../src/item-fields.js';
import { newItem } from '../../src/wishlist/item.js';

export function identityOf(given: Partial<Identity>): Identity {
  const ids = { customerId: null, sessionId: null, email: null };
  return { ...ids, device: null, locale: null, firstName: null, lastName: null, ...given };
}

export function contentOf(productId: string, quantity = 1): ItemContent {
  return {
    ...{ productId, variantId: null, productHandle: `p-${productId}`, productTitle: 'A product' },
    ...{ variantTitle: null, image: 'https://cdn.example/p.png', price: '1.00', compareAt: null },
    ...{ inventoryAvailable: true, quantity, source: 'pdp' },
    ...{ currencyCode: undefined, countryCode: undefined, properties: undefined },
  };
}

export function storedItem(itemId: string, content: ItemContent, now: string): string {
  return newItem(itemId, JSON.stringify(content), Date.parse(now)).join('\n');
}

// What visitors can do in the shop, whatever it costs in HTTP calls. Behaviour (visitor.ts) knows only
// this; http-shop.ts is the one that knows paths and bodies.

import type { Product } from './catalogue.js';

/** Who does it. */
export interface Shopper {
  readonly sessionId: string;
  /** Where the shopper has signed in. */
  readonly customerId: string | null;
  readonly device: 'desktop' | 'mobile';
  readonly locale: string;
}

export const CHANNELS = ['Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'] as const;
export type Channel = (typeof CHANNELS)[number];

/** Every operation resolves once it is acknowledged, and rejects where it was not. */
export interface Shop {
  /** Counts a visit; resolves to the count after it. */
  visit(who: Shopper, product: Product): Promise<number>;
  /** The count, as Smart Save reads it while a page renders. */
  count(who: Shopper, product: Product): Promise<number>;
  /** Smart Save's offer was turned down: counting begins again. */
  resetCount(who: Shopper, product: Product): Promise<void>;
  add(who: Shopper, product: Product, source: 'pdp' | 'collection' | 'pdpSmartSave'): Promise<void>;
  remove(who: Shopper, product: Product): Promise<void>;
  moveToCart(who: Shopper, product: Product, quantity: number): Promise<void>;
  share(who: Shopper, channel: Channel): Promise<void>;
}

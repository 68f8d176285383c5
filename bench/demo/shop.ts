// The operations that visitors have in the shop. Their behaviour (visitor.ts) uses only this interface; http-shop.ts
// implements it with HTTP calls.

import type { Currency, Product } from './catalogue.js';

/** The visitor of an operation. */
export interface Shopper {
  readonly sessionId: string;
  /** Where the shopper has signed in. */
  readonly customerId: string | null;
  readonly device: 'desktop' | 'mobile';
  readonly locale: string;
}

export const CHANNELS = ['Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'] as const;
type Channel = (typeof CHANNELS)[number];
export type Source = 'pdp' | 'collection' | 'pdpSmartSave' | 'wishlist';

/** What is put on a wishlist. */
export interface Wish {
  readonly product: Product;
  /** Null where it was saved from a page on which no variant is chosen yet. */
  readonly variantId: string | null;
  readonly quantity: number;
  /** The one that the visitor sees prices in. */
  readonly currency: Currency;
}

/** An item as the service lists it. */
export interface Listed {
  readonly itemId: string;
  readonly productId: string;
  readonly variantId: string | null;
  readonly quantity: number;
  readonly price: string;
  readonly currencyCode: string;
  /** ISO 8601. */
  readonly addedAt: string;
}

interface Wishlist {
  readonly profileId: string;
  readonly items: readonly Listed[];
}

export interface OrderLine {
  readonly product: Product;
  readonly quantity: number;
}

/** Every operation resolves once it is acknowledged, and rejects where it was not. */
export interface Shop {
  /** Counts a visit; resolves to the count after it. */
  visit(who: Shopper, product: Product): Promise<number>;
  /** The count, as Smart Save reads it while a page renders. */
  count(who: Shopper, product: Product): Promise<number>;
  /** Smart Save's offer was turned down: counting begins again. */
  resetCount(who: Shopper, product: Product): Promise<void>;
  /** Saves it, or saves it anew; resolves to the item's id. */
  save(who: Shopper, wish: Wish, source: Source): Promise<string>;
  /** Resolves to whether it was there. */
  takeOff(who: Shopper, wish: Wish, why: 'remove' | 'moveToCart'): Promise<boolean>;
  wishlist(who: Shopper): Promise<Wishlist>;
  /** Resolves to the code of the wishlist's link. */
  share(who: Shopper, channel: Channel): Promise<string>;
  /** The wishlist that a friend sees. */
  shared(code: string): Promise<Wishlist>;
  /** The session is this customer's from now on; resolves to whether two profiles became one. */
  signIn(who: Shopper & { readonly customerId: string }): Promise<boolean>;
  /** Orders and pays; resolves to the order's number. */
  buy(
    who: Shopper,
    currency: Currency,
    lines: readonly OrderLine[],
  ): Promise<{ readonly orderId: string; readonly isTest: boolean }>;
}

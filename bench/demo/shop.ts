// What visitors and the shop (http-shop.ts) speak of.

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
export type Channel = (typeof CHANNELS)[number];
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

export interface Wishlist {
  readonly profileId: string;
  readonly items: readonly Listed[];
}

export interface OrderLine {
  readonly product: Product;
  readonly quantity: number;
}

// The kit's types for shops in TypeScript: copy this file, or reference it with `/// <reference path="…" />`.

export interface WishlistProduct {
  productId: string;
  variantId?: string | null;
}

export interface WishlistItem extends WishlistProduct {
  productHandle: string;
  productTitle: string;
  /** A decimal number, such as `49.90`. */
  price: string;
  compareAt?: string | null;
  variantTitle?: string | null;
  /** A URL with https. */
  image?: string | null;
  inventoryAvailable?: boolean;
  quantity?: number;
  currencyCode?: string;
  source?: 'pdp' | 'collection' | 'cart' | 'wishlist' | 'email' | 'pdpSmartSave' | 'other';
}

export interface Wishmeter {
  visit(handle: string): Promise<number | undefined>;
  count(handle: string): Promise<number | undefined>;
  counts(handles: string[]): Promise<Record<string, number> | undefined>;
  session(): Promise<string | undefined>;
  forget(): Promise<string | undefined>;
  consent(given: boolean): Promise<void>;
  /** On a page that changes without a load: as `data-customer` and `data-backend`. */
  login(who: { customer: string; backend?: string }): Promise<void>;
  /** True if this browser's copy of the list has the product; any of its variants if there is no `variantId`. */
  has(product: WishlistProduct): boolean;
  /** @returns false if a listener has cancelled the addition, or there is no wishlist here */
  add(item: WishlistItem): boolean;
  /**
   * Removes all variants of the product if there is no `variantId`.
   * @param options `event: 'moveToCart'` if the product goes into the cart
   */
  remove(product: WishlistProduct & { productHandle?: string }, options?: { event?: 'moveToCart' }): boolean;
  /** @returns undefined if the service didn't answer */
  list(): Promise<WishlistItem[] | undefined>;
  share(channel?: 'Link' | 'Email' | 'Facebook' | 'Twitter' | 'Pinterest'): Promise<string | undefined>;
  /** Reads the list again. @param reason for `wishlist:change`; `other-tab` by default */
  refresh(reason?: WishlistChange['reason']): Promise<void>;
}

/** `window.wishmeterOptions`, which must be set before the script runs. */
export interface WishmeterOptions {
  src?: string;
  key?: string;
  productHandle?: string;
  customer?: string;
  consent?: string;
  backend?: string;
  gpc?: 'off';
  products?: (items: WishlistItem[]) => Promise<WishlistToday[]>;
  /** By language, then by name; `*` is every language. */
  texts?: Record<string, Record<string, string>>;
}

/** A product today. One that the answer lacks is not available any more. */
export interface WishlistToday extends WishlistProduct {
  /** Title and picture, which only `<wishlist-popular>` shows. */
  productTitle?: string;
  image?: string | null;
  /** As the shop shows it; the saved one if it is missing. */
  price?: string | number;
  compareAt?: string | number | null;
  /** The one in which the product was saved, if it is missing. */
  currencyCode?: string;
  /** null if the product is not available any more. */
  available?: boolean | null;
}

export interface WishlistChange {
  items: WishlistProduct[];
  count: number | undefined;
  reason: 'click' | 'smart-save' | 'other-tab' | 'login' | 'purchase';
}

export interface WishlistEvents {
  'wishlist:ready': CustomEvent<null>;
  'wishlist:change': CustomEvent<WishlistChange>;
  /** `items` has `item`, and the others of the same click. */
  'wishlist:add': CustomEvent<{ item: WishlistItem; items: WishlistItem[]; reason: string }>;
  'wishlist:remove': CustomEvent<{ item: WishlistProduct; items: WishlistProduct[]; event?: 'moveToCart' }>;
  'wishlist:cart': CustomEvent<{ item: WishlistItem; promise?: Promise<unknown> }>;
  'wishlist:share': CustomEvent<Record<string, never>>;
  'wishlist:error': CustomEvent<{ code: string; error?: string; willRetry: boolean }>;
  'wishlist:state': CustomEvent<{ states: string[]; why?: string }>;
}

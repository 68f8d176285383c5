// Types of the kit, for shops that write TypeScript: copy this file, or `/// <reference path="…" />` it.

export interface WishlistProduct {
  productId: string;
  variantId?: string | null;
}

export interface WishlistItem extends WishlistProduct {
  productHandle: string;
  productTitle: string;
  /** Decimal text, such as `49.90`. */
  price: string;
  compareAt?: string | null;
  variantTitle?: string | null;
  /** An https address. */
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
  /** Whether a product is on the list, as this browser knows it; without `variantId` any variant of it. */
  has(product: WishlistProduct): boolean;
  /** False if a listener has cancelled it, or there is no wishlist here. */
  add(item: WishlistItem): boolean;
  remove(product: WishlistProduct & { productHandle?: string }): boolean;
  /** Undefined without an answer. */
  list(): Promise<WishlistItem[] | undefined>;
  share(): Promise<string | undefined>;
  /** Asks the service again. @param reason what `wishlist:change` says if the list has changed, `other-tab` by default */
  refresh(reason?: WishlistChange['reason']): Promise<void>;
}

/** What a page may set before the script, as `window.wishmeterOptions`. */
export interface WishmeterOptions {
  src?: string;
  key?: string;
  productHandle?: string;
  customer?: string;
  consent?: string;
  backend?: string;
  gpc?: 'off';
  /** Prices and stock of today. */
  products?: (items: WishlistItem[]) => Promise<(WishlistProduct & { price: string; available: boolean })[]>;
}

export interface WishlistChange {
  items: WishlistProduct[];
  count: number | undefined;
  reason: 'click' | 'smart-save' | 'other-tab' | 'login' | 'purchase';
}

export interface WishlistEvents {
  'wishlist:ready': CustomEvent<null>;
  'wishlist:change': CustomEvent<WishlistChange>;
  'wishlist:add': CustomEvent<{ item: WishlistItem; reason: string }>;
  'wishlist:remove': CustomEvent<{ item: WishlistProduct; event?: 'moveToCart' }>;
  'wishlist:cart': CustomEvent<{ item: WishlistItem; promise?: Promise<unknown> }>;
  'wishlist:share': CustomEvent<Record<string, never>>;
  'wishlist:error': CustomEvent<{ code: string; willRetry: boolean }>;
  'wishlist:state': CustomEvent<{ states: string[]; why?: string }>;
}

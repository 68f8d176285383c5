// What a visitor knows to be true, for the proof: what was counted and saved, and which events were caused.
// Written after each acknowledged operation, and never by asking the service.

import type { Product } from './catalogue.js';
import type { OrderLine, Shopper, Source, Wish } from './shop.js';

/** An item on a wishlist. */
export interface Saved extends Wish {
  readonly itemId: string;
}

/** What belongs to one profile. */
export class Belongings {
  readonly counts = new Map<Product, number>();
  /** By product and variant. */
  readonly saved = new Map<string, Saved>();
  /** Share codes that lead here; the first one is given out when it is shared again. */
  readonly codes: string[] = [];

  save(item: Saved): void {
    this.saved.set(nameOf(item), item);
  }

  takeOff(item: Wish): void {
    this.saved.delete(nameOf(item));
  }

  /** What is on the wishlist of a product: with its variant, without one, or both. */
  savedOf(product: Product): Saved[] {
    return [...this.saved.values()].filter((item) => item.product === product);
  }

  /** A guest turns out to be this customer: counts are added, of two like items the customer's stays. */
  takeIn(guest: Belongings): void {
    for (const [product, count] of guest.counts) {
      this.counts.set(product, (this.counts.get(product) ?? 0) + count);
    }
    for (const [name, item] of guest.saved) if (!this.saved.has(name)) this.saved.set(name, item);
    this.codes.push(...guest.codes);
  }
}

function nameOf({ product, variantId }: Wish): string {
  return `${product.id}:${variantId ?? ''}`;
}

/** An event as analysts have it, in the columns of their table. */
export interface EventColumns {
  readonly type: string;
  readonly origin: string;
  readonly product_id: string;
  readonly variant_id: string;
  readonly product_handle: string;
  readonly source: string;
  readonly channel: string;
  readonly share_code: string;
  readonly order_id: string;
  readonly currency: string;
  readonly quantity: number | null;
  readonly price: number | null;
}

const BLANK = {
  product_id: '',
  variant_id: '',
  product_handle: '',
  source: '',
  channel: '',
  share_code: '',
  order_id: '',
  currency: '',
  quantity: null,
  price: null,
} as const;

function itemColumns({ product, variantId }: Wish) {
  return { product_id: product.id, variant_id: variantId ?? '' };
}

/** What an event keeps of the item that it is about. */
function wishColumns(wish: Wish) {
  const { product, quantity, currency } = wish;
  const price = Number(product.prices[currency]);
  return { ...itemColumns(wish), product_handle: product.handle, quantity, price, currency };
}

/** One visitor's afternoon. */
export class Diary {
  readonly number: number;
  /** All that the visitor was known as, the latest last. */
  readonly appearances: Shopper[] = [];
  readonly events: EventColumns[] = [];
  /** Profiles that became part of another. */
  readonly formerProfiles: string[] = [];
  /** What the visitor left with; undefined where one of the requests was refused. */
  left: Belongings | undefined;

  constructor(number: number) {
    this.number = number;
  }

  added(wish: Wish, source: Source): void {
    this.events.push({ ...BLANK, type: 'add', origin: 'item', ...wishColumns(wish), source });
  }

  removed(wish: Wish): void {
    this.events.push({ ...BLANK, type: 'remove', origin: 'item', ...wishColumns(wish) });
  }

  movedToCart(wish: Wish): void {
    this.events.push({ ...BLANK, type: 'moveToCart', origin: 'item', ...wishColumns(wish) });
  }

  shared(channel: string, code: string): void {
    this.events.push({ ...BLANK, type: 'share', origin: 'share', channel, share_code: code });
  }

  bought(wish: Wish, orderId: string, { product, quantity }: OrderLine): void {
    const order = { order_id: orderId, quantity, price: Number(product.prices[wish.currency]) };
    const type = 'autoRemoveAfterPurchase';
    this.events.push({ ...BLANK, type, origin: 'purchase', ...itemColumns(wish), ...order });
  }
}

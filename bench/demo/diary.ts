// What a visitor knows to be true, for the proof: what was counted and saved, and which events were caused.
// Written after each acknowledged operation, and never by asking the service.

import type { Product } from './catalogue.js';
import type { Shopper, Wish } from './shop.js';

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

/** One visitor's afternoon. */
export class Diary {
  /** All that the visitor was known as, the latest last. */
  readonly appearances: Shopper[] = [];
  /** Acknowledged events, each with its type and the item that it is about. */
  readonly events: string[] = [];
  /** What the visitor left with; undefined where one of the requests was refused. */
  left: Belongings | undefined;

  constructor(readonly number: number) {}

  note(type: string, item?: Wish): void {
    this.events.push(`${type} ${item ? nameOf(item) : ':'}`);
  }
}

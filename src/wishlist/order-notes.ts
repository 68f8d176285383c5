// Notes of orders, without the visitor. Every delivery of an order notes it, whatever it says. A note outlives erasures: an
// order that came before an erasure must not bring the visitor back.

import { createHash } from 'node:crypto';
import type { Store } from '../redis/store.js';
import { writeKey } from '../redis/write.js';

const ACTED_ON = 'done';

export type Buyer = 'customer' | 'session';

export interface OrderNote {
  /** When the order came first, in milliseconds. */
  readonly firstAt: number;
  readonly buyer: Buyer;
  /** True if it has changed the wishlists, which it does once. */
  readonly isDone: boolean;
}

export class OrderNotes {
  /** @param keptS seconds that a note is kept: as long as the time of an erasure */
  constructor(
    private readonly store: Store,
    private readonly keptS: number,
  ) {}

  async note(orderId: string, now: number, whose: Buyer): Promise<OrderNote> {
    const fresh = `${now} ${whose}`;
    const set = ['SET', fresh, 'EX', this.keptS, 'NX', 'GET'] as const;
    const found = await writeKey(this.store, this.#key(orderId), set);
    const [firstAt, buyer, done] = String(found ?? fresh).split(' ');
    return { firstAt: Number(firstAt), buyer: buyer as Buyer, isDone: done === ACTED_ON };
  }

  async markDone(orderId: string, { firstAt, buyer }: OrderNote): Promise<void> {
    const note = `${firstAt} ${buyer} ${ACTED_ON}`;
    await writeKey(this.store, this.#key(orderId), ['SET', note, 'EX', this.keptS, 'XX']);
  }

  #key(orderId: string): string {
    return this.store.keys.order(createHash('sha256').update(orderId).digest('base64url'));
  }
}

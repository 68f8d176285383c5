// Notes of orders, which name no visitor. They outlive erasures: a repeated order must not recreate the visitor.

import { createHash } from 'node:crypto';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const NOTE = loadScript<string>('wishlist/noteOrder');
/** Shopify may refund and archive an order for a year. */
const REMEMBERED_S = 400 * 24 * 60 * 60;
const ACTED_ON = 'done';

export type Buyer = 'customer' | 'session';

export interface OrderNote {
  readonly firstAt: number;
  readonly buyer: Buyer;
  readonly isDone: boolean;
}

export class OrderNotes {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async note(orderId: string, now: number, whose: Buyer): Promise<OrderNote> {
    const [firstAt, buyer, done] = (await this.#write(orderId, 'NX', `${now} ${whose}`)).split(' ');
    return { firstAt: Number(firstAt), buyer: buyer as Buyer, isDone: done === ACTED_ON };
  }

  async markDone(orderId: string, { firstAt, buyer }: OrderNote): Promise<void> {
    await this.#write(orderId, 'XX', `${firstAt} ${buyer} ${ACTED_ON}`);
  }

  #write(orderId: string, condition: 'NX' | 'XX', note: string): Promise<string> {
    const key = this.#store.keys.order(createHash('sha256').update(orderId).digest('base64url'));
    return this.#store.change(NOTE, [key], [REMEMBERED_S, condition, note]);
  }
}

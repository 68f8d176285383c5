// Notes of orders in Redis. They name no visitor and outlive an erasure: a repeated order must not bring an erased
// visitor back.

import { createHash } from 'node:crypto';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const NOTE = loadScript<string>('wishlist/noteOrder');
/** Seconds: orders are refunded and archived for a year. */
const REMEMBERED_S = 400 * 24 * 60 * 60;
const ACTED_ON = 'done';

/** The id that names the buyer. */
export type Buyer = 'customer' | 'session';

export interface OrderNote {
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  readonly buyer: Buyer;
  /** The wishlist was changed. */
  readonly isDone: boolean;
}

export class OrderNotes {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Reads or makes the note. @throws ServiceError `unavailable` */
  async note(orderId: string, now: number, whose: Buyer): Promise<OrderNote> {
    const [firstAt, buyer, done] = (await this.#write(orderId, 'NX', `${now} ${whose}`)).split(' ');
    return { firstAt: Number(firstAt), buyer: buyer as Buyer, isDone: done === ACTED_ON };
  }

  /** @throws ServiceError `unavailable` */
  async markDone(orderId: string, { firstAt, buyer }: OrderNote): Promise<void> {
    await this.#write(orderId, 'XX', `${firstAt} ${buyer} ${ACTED_ON}`);
  }

  #write(orderId: string, condition: 'NX' | 'XX', note: string): Promise<string> {
    const key = this.#store.keys.order(createHash('sha256').update(orderId).digest('base64url'));
    return this.#store.change(NOTE, [key], [REMEMBERED_S, condition, note]);
  }
}

// What is remembered of an order, beside its rows in ClickHouse: when it came first, whether it was the customer's or the
// session's then, and whether it has been acted on. It names no visitor, so it outlives an erasure: a repeated order must not
// bring an erased visitor back.

import { createHash } from 'node:crypto';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const NOTE = loadScript<string>('order-note');
/** Seconds for which an order is remembered: orders are refunded and archived for a year. */
const REMEMBERED_S = 400 * 24 * 60 * 60;
const ACTED_ON = 'done';

/** Which of its ids says whose an order is. */
export type Buyer = 'customer' | 'session';

export interface OrderNote {
  /** When the order came first, milliseconds since 1970. */
  readonly firstAt: number;
  readonly buyer: Buyer;
  /** Whether a delivery of it was acted on as a purchase. */
  readonly isDone: boolean;
}

export class OrderNotes {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The note of an order, made now if there is none. @throws ServiceError `unavailable` */
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

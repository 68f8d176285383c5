// RATE_LIMIT: how many requests one caller may send per second. Each `serve` process counts for itself, so nothing
// waits for Redis, and a caller whose connections are spread over several processes may send so much to each.
//
// Seconds are the same for all callers, so that what was counted is forgotten at once and without a timer: who comes
// around the end of one may send twice as much in a moment, and never more than that.

import { ServiceError } from '../errors.js';

/** No caller waits longer than this, so the Retry-After of every error, one second, is right here, too. */
const WINDOW_MS = 1_000;

export class RateLimit {
  readonly #perWindow: number;
  #windowEnds = 0;
  /** Requests of each caller in this window. */
  #counts = new Map<string, number>();

  /** @param perSecond at least 1 */
  constructor(perSecond: number) {
    this.#perWindow = perSecond;
  }

  /** Counts requests. @throws ServiceError `rate_limited` where they are too many; they are counted all the same */
  count(caller: string, requests = 1): void {
    const now = performance.now();
    if (now >= this.#windowEnds) {
      this.#windowEnds = now + WINDOW_MS;
      this.#counts = new Map();
    }
    const count = (this.#counts.get(caller) ?? 0) + requests;
    this.#counts.set(caller, count);
    if (count > this.#perWindow) throw new ServiceError('rate_limited');
  }
}

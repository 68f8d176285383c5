// RATE_LIMIT: how many requests one caller may send per second. Each `serve` process counts for itself, so nothing
// waits for Redis, and a caller whose connections are spread over several processes may send so much to each.

import { RateLimiterMemory } from 'rate-limiter-flexible';
import { ServiceError } from '../errors.js';

/** Seconds. No caller waits longer than this, so the Retry-After of every error, one second, is right here, too. */
const WINDOW_S = 1;

export class RateLimit {
  readonly #limiter: RateLimiterMemory;

  /** @param perSecond at least 1 */
  constructor(perSecond: number) {
    this.#limiter = new RateLimiterMemory({ points: perSecond, duration: WINDOW_S, keyPrefix: '' });
  }

  /** Counts one request. @throws ServiceError `rate_limited` where it is one too many */
  async count(caller: string): Promise<void> {
    try {
      await this.#limiter.consume(caller);
    } catch {
      throw new ServiceError('rate_limited');
    }
  }
}

// What Redis's clock says, told by ours. Batches carry their deadline in Redis's time, so that one that
// reaches a frozen server after its sender gave up does nothing. Ours is the monotonic clock: a jump of
// the wall clock on either machine only means measuring again.

import type { RedisClient } from './client.js';

export class RedisClock {
  #offset = 0;

  /** Milliseconds of Redis's clock, now. */
  now(): number {
    return performance.now() + this.#offset;
  }

  /** Asks Redis for its time; the answer's age, half a round trip, is well below any deadline. */
  async measure(client: RedisClient): Promise<void> {
    const before = performance.now();
    const [seconds, micros] = (await client.time()) as [number | string, number | string];
    const between = (before + performance.now()) / 2;
    this.#offset = Number(seconds) * 1000 + Number(micros) / 1000 - between;
  }
}

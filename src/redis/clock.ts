// Converts our monotonic time to a node's clock, for deadlines. Wall clocks jump, so it is measured repeatedly.

import type { Redis } from 'ioredis';

/** The shortest round trip counts: the error is at most half of it. */
const SAMPLES = 5;

export class RedisClock {
  #offset = 0;
  #measuring: Promise<void> | undefined;

  /** @param time by `performance.now()` @returns milliseconds since 1970 by the node's clock */
  at(time: number): number {
    return time + this.#offset;
  }

  measure(redis: Pick<Redis, 'time'>): Promise<void> {
    this.#measuring ??= this.#measure(redis).finally(() => {
      this.#measuring = undefined;
    });
    return this.#measuring;
  }

  async #measure(redis: Pick<Redis, 'time'>): Promise<void> {
    let shortest = Number.POSITIVE_INFINITY;
    let offset = 0;
    for (let i = 0; i < SAMPLES; i++) {
      const before = performance.now();
      const [seconds, micros] = (await redis.time()) as [number | string, number | string];
      const roundTrip = performance.now() - before;
      if (roundTrip >= shortest) continue;
      shortest = roundTrip;
      offset = Number(seconds) * 1000 + Number(micros) / 1000 - (before + roundTrip / 2);
    }
    this.#offset = offset;
  }
}

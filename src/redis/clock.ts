// What the clock of one Redis node says, told by ours. Batches carry their deadline in the node's time, so that one
// that reaches a frozen node after its sender gave up does nothing. Nodes of a cluster have clocks of their own. Ours is
// the monotonic clock: a jump of the wall clock on either machine only means measuring again.

import type { Redis } from 'ioredis';

/** The sample with the shortest round trip says most: it is wrong by half of that at most. */
const SAMPLES = 5;

export class RedisClock {
  readonly #now: () => number;
  #offset = 0;
  #measuring: Promise<void> | undefined;

  /** @param now our monotonic clock */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Milliseconds of the node's clock at a time of ours (`performance.now()`). */
  at(time: number): number {
    return time + this.#offset;
  }

  /**
   * Asks the node for its time, one sample after the other. Callers at the same moment share one answer.
   * @throws Redis's errors
   */
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
      const before = this.#now();
      const [seconds, micros] = (await redis.time()) as [number | string, number | string];
      const roundTrip = this.#now() - before;
      if (roundTrip >= shortest) continue;
      shortest = roundTrip;
      offset = Number(seconds) * 1000 + Number(micros) / 1000 - (before + roundTrip / 2);
    }
    this.#offset = offset;
  }
}

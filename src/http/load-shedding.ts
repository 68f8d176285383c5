// Load shedding. Redis's replies are read only after the tick that sent the commands. In a tick with thousands of
// requests that may be too late, so late arrivals are refused first.

import { overloaded } from '../errors.js';

/** Requests of a tick that are always accepted. */
const ALWAYS_ADMITTED = 256;

export class Turn {
  readonly #longestMs: number;
  #hasBegun = false;
  #began = 0;
  /** Requests in this tick that may be shed. */
  #count = 0;

  /** @param longestMs after this time in a tick only ALWAYS_ADMITTED requests are accepted */
  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** Monotonic time of the tick's first request; one clock read per tick. */
  get began(): number {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#began = performance.now();
      setImmediate(this.#end);
    }
    return this.#began;
  }

  /** @throws ServiceError `overloaded` */
  shedLoad(): void {
    if (++this.#count > ALWAYS_ADMITTED && performance.now() - this.#began > this.#longestMs)
      throw overloaded('process');
  }

  readonly #end = (): void => {
    this.#count = 0;
    this.#hasBegun = false;
  };
}

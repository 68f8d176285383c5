// Load shedding. Redis's replies are read after the tick of the event loop that sent the commands. In a tick with thousands of
// requests that may be too late for them, so late arrivals are refused before any work is done.

import { overloaded } from '../errors.js';

/** So many requests of a tick are always accepted. */
const ALWAYS_ADMITTED = 256;

/** The current tick of the event loop. */
export class Turn {
  readonly #longestMs: number;
  #hasBegun = false;
  #began = 0;
  /** Requests in this tick that may be shed. */
  #count = 0;

  /** @param longestMs after so many milliseconds of a tick no more than ALWAYS_ADMITTED requests are accepted */
  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** Monotonic time of the tick's first request. The clock is read once per tick. */
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

// Load shedding. Replies of Redis are read after the turn of the event loop that asked for them. In a turn that brings
// thousands of requests, that may be later than a request may wait, so late arrivals are refused before any work is done.

import { overloaded } from '../errors.js';

/** Requests of one turn that are always taken. */
const ALWAYS_ADMITTED = 256;

/** The current turn of the event loop. */
export class Turn {
  readonly #longestMs: number;
  #hasBegun = false;
  #began = 0;
  /** Requests so far that may be shed. */
  #count = 0;

  /** @param longestMs milliseconds that a turn may have taken when more than ALWAYS_ADMITTED are still taken */
  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** When its first request of any kind came, by `performance.now()`. One look at the clock is enough for all of a turn. */
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

// Load shedding. Redis's replies are read only after the tick that sent the commands. In a tick with thousands of
// requests that may be too late, so the last ones are refused.

import { overloaded } from '../errors.js';

const ALWAYS_ADMITTED = 256;

export class TickWatch {
  #hasBegun = false;
  #began = 0;
  #count = 0;

  constructor(private readonly longestMs: number) {}

  /** When the tick's first request came, by `performance.now()`, which is read once per tick. */
  get began(): number {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      this.#began = performance.now();
      setImmediate(this.#end);
    }
    return this.#began;
  }

  shedLoad(): void {
    if (++this.#count > ALWAYS_ADMITTED && performance.now() - this.#began > this.longestMs)
      throw overloaded('process');
  }

  readonly #end = (): void => {
    this.#count = 0;
    this.#hasBegun = false;
  };
}

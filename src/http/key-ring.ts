// A set of keys that can be asked for one. Only digests are kept, so a key can't leak from memory, and
// digests compare in constant time; several keys at once are how keys are rotated.

import { hash, timingSafeEqual } from 'node:crypto';

export class KeyRing {
  readonly #digests: readonly Buffer[];

  constructor(keys: readonly string[]) {
    this.#digests = keys.map(digest);
  }

  /** Which of the keys it is; undefined where it is none. All are compared, whichever it is. */
  find(key: string): number | undefined {
    const presented = digest(key);
    let found: number | undefined;
    for (const [i, known] of this.#digests.entries()) if (timingSafeEqual(known, presented)) found = i;
    return found;
  }
}

function digest(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

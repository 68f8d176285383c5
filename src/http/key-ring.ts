// A set of keys that can be asked for one. Only digests are kept, so a key can't leak from memory, and
// digests compare in constant time; several keys at once are how keys are rotated.

import { createHash, timingSafeEqual } from 'node:crypto';

export class KeyRing {
  readonly #digests: readonly Buffer[];

  constructor(keys: readonly string[]) {
    this.#digests = keys.map(digest);
  }

  has(key: string): boolean {
    const presented = digest(key);
    let found = false;
    for (const known of this.#digests) found = timingSafeEqual(known, presented) || found;
    return found;
  }
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

// A set of secret keys, compared in constant time. Several valid keys allow rotation.
//
// A server sends its key with every request, and hashing it would cost more than the rest of the access check. So a key that
// matched by digest is remembered as text, and compared with that next time. The comparison visits every character, so its
// time reveals only the length. Only right keys are remembered, so strangers can't add or evict any.

import { hash, timingSafeEqual } from 'node:crypto';

export class KeyRing {
  readonly #digests: readonly Buffer[];
  /** Keys that matched before, in the order of the digests. */
  readonly #remembered: (string | undefined)[];

  constructor(keys: readonly string[]) {
    this.#digests = keys.map(digest);
    this.#remembered = keys.map(() => undefined);
  }

  /** The index of the key, or undefined. Always compares all keys. */
  find(key: string): number | undefined {
    let found = this.#recall(key);
    if (found === undefined) {
      const presented = digest(key);
      for (const [i, known] of this.#digests.entries()) if (timingSafeEqual(known, presented)) found = i;
      if (found !== undefined) this.#remembered[found] = key;
    }
    return found;
  }

  #recall(key: string): number | undefined {
    let found: number | undefined;
    for (let i = 0; i < this.#remembered.length; i++) {
      const text = this.#remembered[i];
      if (text !== undefined && isSame(text, key)) found = i;
    }
    return found;
  }
}

/** Compares two secrets of any length in constant time. */
export function isSameSecret(secret: string, other: string): boolean {
  return new KeyRing([secret]).find(other) !== undefined;
}

/** Compares all characters, without a branch that depends on them. */
function isSame(text: string, other: string): boolean {
  let difference = text.length ^ other.length;
  if (difference === 0)
    for (let i = 0; i < text.length; i++) difference |= text.charCodeAt(i) ^ other.charCodeAt(i);
  return difference === 0;
}

function digest(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

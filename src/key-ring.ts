// Secret keys, compared in constant time. Several valid keys allow rotation.
//
// Hashing each request's key would cost more than the rest of the access check, so a key that matched by its digest is
// remembered as text. Comparing texts visits every character, so the time reveals only the length.

import { hash, timingSafeEqual } from 'node:crypto';

export class KeyRing {
  readonly #digests: readonly Buffer[];
  readonly #remembered: (string | undefined)[];

  constructor(keys: readonly string[]) {
    this.#digests = keys.map(digest);
    this.#remembered = keys.map(() => undefined);
  }

  /** Always compares all keys. @returns the index of a key */
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

export function isSameSecret(secret: string, other: string): boolean {
  return new KeyRing([secret]).find(other) !== undefined;
}

function isSame(text: string, other: string): boolean {
  let difference = text.length ^ other.length;
  if (difference === 0)
    for (let i = 0; i < text.length; i++) difference |= text.charCodeAt(i) ^ other.charCodeAt(i);
  return difference === 0;
}

function digest(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

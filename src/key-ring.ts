// A set of keys that can be asked for one. Digests compare in constant time; several keys at once are how keys are
// rotated.
//
// A trusted server sends its key with every request, and a digest of each costs more than all else that access takes.
// So a key that was found is remembered as it was sent, and one that is sent again is compared with that. This gives
// nothing away: the comparison looks at every character, whichever is wrong, so that its time tells no more than
// whether the length is that of a key. What is not remembered is compared by digests, and only what these prove right is
// remembered: a stranger can put nothing there, nor push anything out.

import { hash, timingSafeEqual } from 'node:crypto';

export class KeyRing {
  readonly #digests: readonly Buffer[];
  /** Those of the keys that were found before, in the same order. */
  readonly #remembered: (string | undefined)[];

  constructor(keys: readonly string[]) {
    this.#digests = keys.map(digest);
    this.#remembered = keys.map(() => undefined);
  }

  /** Which of the keys it is; undefined where it is none. All are compared, whichever it is. */
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

/** Whether two secrets are the same, in constant time, of any lengths. */
export function isSameSecret(secret: string, other: string): boolean {
  return new KeyRing([secret]).find(other) !== undefined;
}

/** Compares all characters of two texts of one length, without a branch that depends on them. */
function isSame(text: string, other: string): boolean {
  let difference = text.length ^ other.length;
  if (difference === 0)
    for (let i = 0; i < text.length; i++) difference |= text.charCodeAt(i) ^ other.charCodeAt(i);
  return difference === 0;
}

function digest(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

// Access to /metrics, and the cache of /metrics and /readyz. Metrics show what a shop sells. Both cost calls of Redis,
// and anyone may ask (metrics: without a token), so they are computed at most once a second.

import { KeyRing } from '../key-ring.js';

const LAST_MS = 1_000;
const BEARER = /^Bearer +(\S+) *$/i;

export function bearerOf(authorization: string): string {
  return BEARER.exec(authorization)?.[1] ?? '';
}

export class MetricsAccess {
  readonly #tokens: KeyRing | undefined;

  /** @param token '' allows everyone */
  constructor(token: string) {
    this.#tokens = token === '' ? undefined : new KeyRing([token]);
  }

  allows(authorization: string): boolean {
    return this.#tokens === undefined || this.#tokens.find(bearerOf(authorization)) !== undefined;
  }
}

/** Caches a result for a second, but not a failure. */
export function atMostOnceASecond<T>(
  make: () => Promise<T>,
  clock = () => performance.now(),
): () => Promise<T> {
  let made: Promise<T> | undefined;
  let begun = 0;
  return () => {
    const now = clock();
    if (made === undefined || now - begun >= LAST_MS) {
      begun = now;
      const mine = make();
      mine.catch(() => {
        if (made === mine) made = undefined;
      });
      made = mine;
    }
    return made;
  };
}

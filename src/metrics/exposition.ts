// Access to /metrics, and the cache of /metrics and /readyz. Metrics show what a shop sells. Both cost calls of Redis,
// and anyone may ask (metrics: without a token), so they are computed at most once a second.

import { KeyRing } from '../key-ring.js';

const LAST_MS = 1_000;
const BEARER = /^Bearer +(\S+) *$/i;

export function bearerOf(authorization: string): string {
  return BEARER.exec(authorization)?.[1] ?? '';
}

/** @param token '' allows everyone */
export function metricsAccess(token: string): (authorization: string) => boolean {
  if (token === '') return () => true;
  const tokens = new KeyRing([token]);
  return (authorization) => tokens.find(bearerOf(authorization)) !== undefined;
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

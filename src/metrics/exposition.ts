// /metrics of every process: who may read it, and how often its figures are made.
//
// Everyone may read it, or where METRICS_TOKEN is set, clients that send it as `Authorization: Bearer <token>`: figures
// name no visitor, but they tell what a shop sells. Figures take milliseconds to make, `serve` asks Redis for them, and
// without a token anyone may ask: so they are made at most once a second, however often they are asked for.

import { KeyRing } from '../key-ring.js';

const LAST_MS = 1_000;
const BEARER = /^Bearer +(\S+) *$/i;

/** What an Authorization header has after `Bearer`; empty where it is something else. */
export function bearerOf(authorization: string): string {
  return BEARER.exec(authorization)?.[1] ?? '';
}

export class MetricsAccess {
  readonly #tokens: KeyRing | undefined;

  /** @param token empty where everyone may */
  constructor(token: string) {
    this.#tokens = token === '' ? undefined : new KeyRing([token]);
  }

  /** @param authorization the header; empty where absent */
  allows(authorization: string): boolean {
    return this.#tokens === undefined || this.#tokens.find(bearerOf(authorization)) !== undefined;
  }
}

/** What `make` made last; made anew where that was begun a second ago or failed. Callers that come meanwhile share one. */
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

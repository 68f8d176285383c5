// Who may read metrics: everyone, or where METRICS_TOKEN is set, clients that send it as `Authorization: Bearer <token>`.
// Figures name no visitor, but they tell what a shop sells.

import { KeyRing } from './key-ring.js';

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

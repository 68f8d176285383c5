// What a case proves: before it is timed, that its answers are right; after it, that what was acknowledged is
// there, all of it and nothing else.

import { deepEqual, equal } from 'node:assert/strict';
import type { Target } from '../servers/target.js';
import type { Pool } from '../traffic/pools.js';

/** Requests of a pool that were replayed and acknowledged: `count` of them, from its first on, round and round. */
export interface Sent {
  readonly pool: Pool;
  readonly count: number;
  /** So many more were not acknowledged. They may be there all the same. */
  readonly unsure?: number;
}

export interface Proof {
  /** @returns how many writes it has left behind. @throws where an answer is wrong */
  before(target: Target): Promise<number>;
  /** After the load, as clients and analysts see it: true for any version. @throws where something is not there */
  outside(target: Target, sent: readonly Sent[], leftBefore: number): Promise<void>;
  /** After the load, in Redis, in keys as this version spells them. @throws where it holds more or less */
  inside(target: Target, sent: readonly Sent[], leftBefore: number): Promise<void>;
}

/** All operations that were acknowledged. */
export function total(sent: readonly Sent[]): number {
  return sent.reduce((sum, { count, pool }) => sum + count * pool.perRequest, 0);
}

export function same(what: string, got: unknown, expected: unknown): void {
  equal(got, expected, `${what}: ${got}, not ${expected}`);
}

export function answers(what: string, got: Record<string, unknown>, expected: object): void {
  deepEqual(got, { ...got, ...expected }, `${what}: ${JSON.stringify(got)}`);
}

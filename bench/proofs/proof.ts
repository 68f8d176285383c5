// The proof of a case: its answers are right before any timing, and afterwards Redis and ClickHouse hold exactly what was
// acknowledged.

import { deepEqual, equal } from 'node:assert/strict';
import { sumHashes } from '../servers/redis.js';
import type { Target } from '../servers/target.js';
import type { Pool } from '../traffic/pools.js';
import { KEY } from '../traffic/requests.js';

/** How many requests of each pool were acknowledged. */
type Sent = ReadonlyMap<Pool, number>;

export interface Proof {
  /** @returns how many writes it has left behind. @throws if an answer is wrong */
  before(target: Target): Promise<number>;
  /** After the load. @throws if anything is missing or there twice */
  after(target: Target, sent: Sent, leftBefore: number): Promise<void>;
}

/** All writes that were acknowledged. */
export function total(sent: Sent): number {
  let writes = 0;
  for (const [pool, count] of sent) if (pool.writes) writes += count * pool.perRequest;
  return writes;
}

/** The counts in all hashes of this pattern add up to the acknowledged writes. */
export function sumIsRight(pattern: string): Proof['after'] {
  return async ({ masters }, sent, leftBefore) => {
    same('counts in Redis, summed up', await sumHashes(masters, pattern), total(sent) + leftBefore);
  };
}

export function same(what: string, got: unknown, expected: unknown): void {
  equal(got, expected, `${what}: ${got}, not ${expected}`);
}

export function answers(what: string, got: Record<string, unknown>, expected: object): void {
  deepEqual(got, { ...got, ...expected }, `${what}: ${JSON.stringify(got)}`);
}

/** @throws if the answer is not 2xx JSON */
export async function ask(
  port: number,
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = { authorization: `Bearer ${KEY}` },
): Promise<Record<string, unknown>> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} was answered ${answer.status}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

// The latency of compliance webhooks, beside visits.

import { deepEqual } from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Bench } from '../../bench.js';
import { same } from '../../proofs/proof.js';
import type { Target } from '../../servers/target.js';
import { percentile } from '../../statistics.js';
import { customerId } from '../../traffic/people.js';
import { runAtRate } from './beside.js';
import { countOfCustomer, sampleOf, upTo } from './crowd.js';
import { redact, untilErased } from './requests.js';

const WEBHOOKS = 200;
const WEBHOOK_EVERY_MS = 25;

export interface Webhooks {
  readonly count: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

/** Times the answers to customers' erasures; the erasures themselves are done in the background. */
export async function measureWebhooks(bench: Bench, target: Target, signedIn: number): Promise<Webhooks> {
  const { port } = target;
  const stays = sampleOf(signedIn).filter((n) => n >= WEBHOOKS);
  const counts = () => Promise.all(stays.map((n) => countOfCustomer(port, n)));
  const before = await counts();
  same('a customer', await countOfCustomer(port, 0), 2);
  const seconds = (WEBHOOKS * WEBHOOK_EVERY_MS) / 1_000 + 2;
  const load = runAtRate(bench, target, seconds);
  await sleep(2_000);
  const took = await Promise.all(
    upTo(WEBHOOKS).map(async (n) => {
      await sleep(n * WEBHOOK_EVERY_MS);
      const customer = { id: Number(customerId(n)), email: null };
      const began = performance.now();
      await redact(port, 'customers/redact', { customer, orders_to_redact: [n] }, String(n));
      return performance.now() - began;
    }),
  );
  await load;
  await untilErased(target.redis as Redis, 'customers/redact');
  for (const n of upTo(WEBHOOKS)) same(`customer ${n}`, await countOfCustomer(port, n), 0);
  deepEqual(await counts(), before);
  const sorted = took.sort((a, b) => a - b);
  return { count: WEBHOOKS, p99Ms: percentile(sorted, 0.99), longestMs: percentile(sorted, 1) };
}

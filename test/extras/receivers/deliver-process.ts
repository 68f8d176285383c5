// A deliverer as a process of its own, for tests that kill and freeze it: at a step that it reaches, it does that to itself,
// so that no test depends on timing. Its spec is its argument, as JSON.

import type { DeliverStep } from '../../../src/extras/receivers/attempt.js';
import { openDeliveries } from './fixtures.js';

export interface DeliverProcessSpec {
  readonly redisUrls: readonly string[];
  readonly prefix: string;
  readonly leaseMs: number;
  /** When this step is reached for the n-th time, the process sends itself the signal. */
  readonly at?: { readonly step: DeliverStep; readonly nth: number; readonly signal: 'SIGKILL' | 'SIGSTOP' };
}

const spec = JSON.parse(process.argv[2] ?? '') as DeliverProcessSpec;
const closers: (() => unknown)[] = [];
const scope = { teardown: (closer: () => unknown) => void closers.push(closer) };
const deliveries = await openDeliveries(
  scope,
  { urls: spec.redisUrls, pids: [], stop: async () => {} },
  spec.prefix,
);
let reached = 0;
deliveries.deliverer({
  leaseMs: spec.leaseMs,
  onStep(step) {
    if (spec.at?.step !== step || ++reached !== spec.at.nth) return;
    process.send?.('stopping');
    process.kill(process.pid, spec.at.signal);
    // SIGSTOP takes effect when it is delivered, which may be some instructions later.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  },
});

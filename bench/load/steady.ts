// Load at a fixed rate that does not depend on the server (an open model): random arrivals, as from many independent
// visitors (see arrivals.ts). Each request is timed from the moment when it was due. So a pause of the server counts for
// every request that was due during it, which a closed loop such as wrk's misses (coordinated omission).

import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Pool } from '../traffic/pools.js';

export interface Steady {
  readonly port: number;
  readonly pool: Pool;
  /** Requests per second. */
  readonly rate: number;
  /** Seconds that are measured, after … */
  readonly seconds: number;
  /** … these, which are not. */
  readonly settleSeconds: number;
}

/** What the process is told, as the one argument. */
export interface SteadyOrder extends Omit<Steady, 'pool'> {
  readonly file: string;
}

/** Milliseconds of the machine's monotonic clock (process.hrtime), which all processes share. */
export interface Timed {
  readonly due: number;
  readonly sent: number;
  readonly answered: number;
}

export interface SteadyResult {
  /** All requests, the unmeasured ones too. */
  readonly sent: number;
  readonly answered: number;
  /** Not 2xx, or a broken connection. */
  readonly failed: number;
  /** Of the measured ones, milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** What the generator itself was late by, 99th percentile: the error of the figures above. */
  readonly generatorLateP99Ms: number;
  /** Most requests that found every connection taken, at once. */
  readonly mostWaiting: number;
  /** CPU seconds of the generator. */
  readonly cpuSeconds: number;
  /** The hundred of the measured ones that were answered latest after they were due. */
  readonly slowest: readonly Timed[];
}

const PROCESS = new URL('./steady-process.js', import.meta.url);

/**
 * Runs in a process of its own, and resolves when that has ended.
 * @param onStart told of its pid
 * @throws where that fails
 */
export async function runSteady(
  { pool, ...spec }: Steady,
  onStart: (pid: number) => void = () => {},
): Promise<SteadyResult> {
  const order: SteadyOrder = { ...spec, file: pool.file };
  const child = fork(PROCESS, [JSON.stringify(order)], { serialization: 'advanced' });
  if (child.pid !== undefined) onStart(child.pid);
  let result: SteadyResult | undefined;
  child.once('message', (message) => {
    result = message as SteadyResult;
  });
  const [code] = await once(child, 'exit');
  if (result === undefined) throw new Error(`the generator of steady load ended with ${code}`);
  return result;
}

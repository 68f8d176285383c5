// Load at a fixed rate that does not depend on the server (an open model). Each request is timed from the moment when it was
// due, so a pause of the server counts for every request that was due during it. A closed loop such as wrk's misses these.

import { fork } from 'node:child_process';
import { once } from 'node:events';

/** The one argument of the process. */
export interface SteadyOrder {
  readonly port: number;
  /** Requests per second. */
  readonly rate: number;
  /** Seconds that are measured, after one that isn't. */
  readonly seconds: number;
  /** Of a pool. */
  readonly file: string;
}

export interface SteadyResult {
  /** With those before the measured seconds; failed: no answer, or not 2xx. */
  readonly answered: number;
  readonly failed: number;
  /** Milliseconds, of the measured requests. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** By how much the generator sent late: the error of the latencies. */
  readonly generatorLateP99Ms: number;
}

const PROCESS = new URL('./steady-process.js', import.meta.url);

/** Runs in a process of its own. @throws if that fails */
export async function runSteady(order: SteadyOrder): Promise<SteadyResult> {
  const child = fork(PROCESS, [JSON.stringify(order)]);
  let result: SteadyResult | undefined;
  child.once('message', (message) => {
    result = message as SteadyResult;
  });
  const [code] = await once(child, 'exit');
  if (result === undefined) throw new Error(`the generator of steady load ended with ${code}`);
  return result;
}

// More than a service can do, offered as a crowd offers it (an open loop): requests are due at a rate, whatever became of
// those before them. The crowd comes through a bounded number of connections, as through a balancer: who finds
// them all taken waits for one, and leaves after a while. Without a rate each connection asks again as soon as it
// is answered (a closed loop), which is how a peak is measured.
//
// The generator must not be what gives way. It is a process of its own; a visit brings along KiB that it writes as
// they are and the service has to parse, so that a request costs the service several times what it costs here; and
// its result tells how late it was and how much of a core it took.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Entry } from './load.js';

export interface Overload {
  readonly port: number;
  /** A secret key. */
  readonly key: string;
  /** Begins every id. */
  readonly name: string;
  readonly connections: number;
  readonly seconds: number;
  /** Requests per second; without it the loop is closed. */
  readonly rate?: number;
}

/** Milliseconds. */
export interface Times {
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
}

export interface OverloadResult {
  /** Requests that were due: those sent and those turned away. */
  readonly due: number;
  readonly sent: number;
  /** Found every connection taken for as long as anybody waits for one. */
  readonly turnedAway: number;
  /** By status; `none` where the connection ended under a request, `hangs` where nothing came for very long. */
  readonly answers: Readonly<Record<string, number>>;
  /** 503 without Retry-After. */
  readonly withoutRetryAfter: number;
  /** Acknowledged per second, while requests were due. */
  readonly goodput: number;
  /** From being sent to the answer: the service's own. */
  readonly answered: Times;
  /** From being due to the answer, the wait for a connection included. */
  readonly dueToAnswered: Times;
  /** What the generator itself was late by, 99th percentile, milliseconds. */
  readonly lateP99: number;
  /** Share of one core that the generator took. */
  readonly cpu: number;
  readonly events: ReadonlyMap<string, Entry>;
  readonly visits: ReadonlyMap<string, Entry>;
}

const PROCESS = new URL('./overload-process.js', import.meta.url);

/** Resolves when all is answered. @throws where the generator fails */
export async function overload(spec: Overload): Promise<OverloadResult> {
  const child = fork(PROCESS, [JSON.stringify(spec)], { serialization: 'advanced', execArgv: [] });
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the generator ended with ${code}`);
  });
  failed.catch(() => {}); // it also ends after its message
  const [result] = (await Promise.race([once(child, 'message'), failed])) as [OverloadResult];
  return result;
}

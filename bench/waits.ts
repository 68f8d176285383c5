// Where slow requests waited: what each process on their way did in the meantime, told by the kernel's scheduler.

import { readFileSync } from 'node:fs';
import type { Timed } from './load/steady.js';

const EVERY_MS = 10;

/** Milliseconds for which the main thread of a process had a core so far, and for which it wanted one in vain. */
export interface Scheduled {
  readonly ran: number;
  readonly waited: number;
}

export interface Sample {
  /** Milliseconds of the machine's monotonic clock. */
  readonly at: number;
  readonly processes: Readonly<Record<string, Scheduled>>;
}

/** Looks at processes every 10 ms; the function that comes back ends that. */
export function startSampling(pids: Readonly<Record<string, number>>): () => Sample[] {
  const samples: Sample[] = [];
  const look = () => {
    const processes = Object.entries(pids).map(([name, pid]) => [name, scheduled(pid)] as const);
    samples.push({ at: Number(process.hrtime.bigint()) / 1e6, processes: Object.fromEntries(processes) });
  };
  const timer = setInterval(look, EVERY_MS);
  return () => {
    clearInterval(timer);
    return samples;
  };
}

function scheduled(pid: number): Scheduled {
  try {
    const [ran = 0, waited = 0] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ').map(Number);
    return { ran: ran / 1e6, waited: waited / 1e6 };
  } catch {
    return { ran: Number.NaN, waited: Number.NaN }; // it has ended
  }
}

/** Requests by what took the largest part of their time. */
export type Causes = Readonly<Record<string, number>>;

export const SENT_LATE = 'the generator sent it late';
export const UNEXPLAINED = 'none of these for half of it';

/**
 * How many of these requests owe the largest part of their time to which cause. A process that worked through most of
 * it did so for others, or collected garbage, or was in the kernel; where no cause has half of it, that is said.
 */
export function causesOf(slowest: readonly Timed[], samples: readonly Sample[]): Causes {
  const causes: Record<string, number> = {};
  for (const request of slowest) {
    const cause = causeOf(request, samples);
    causes[cause] = (causes[cause] ?? 0) + 1;
  }
  return causes;
}

function causeOf({ due, sent, answered }: Timed, samples: readonly Sample[]): string {
  // The looks around the time from sending to answering; parts of the first and the last interval are not its own.
  const first = samples.findLast(({ at }) => at <= sent) ?? samples[0];
  const last = samples.find(({ at }) => at >= answered) ?? samples.at(-1);
  const parts: [cause: string, ms: number][] = [[SENT_LATE, sent - due]];
  for (const [name, before] of Object.entries(first?.processes ?? {})) {
    const after = last?.processes[name] ?? before;
    const within = (ms: number) => Math.min(ms || 0, answered - sent);
    parts.push([`${name} waited for a core`, within(after.waited - before.waited)]);
    parts.push([`${name} worked`, within(after.ran - before.ran)]);
  }
  const [cause, ms] = parts.reduce((most, part) => (part[1] > most[1] ? part : most));
  return ms >= (answered - due) / 2 ? cause : UNEXPLAINED;
}

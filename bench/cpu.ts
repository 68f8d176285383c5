// CPU time of processes, from /proc: user and system time of all their threads, living and ended.

import { readFileSync } from 'node:fs';
import type { Part, Target } from './servers/target.js';

/** The kernel counts in these for us, whatever it counts in itself (USER_HZ). */
const TICKS_PER_SECOND = 100;
const UTIME = 11;
const STIME = 12;

/** Seconds of CPU that a process has used so far. */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name stands in parentheses and may hold anything; fields are counted from behind it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[UTIME]) + Number(fields[STIME])) / TICKS_PER_SECOND;
}

/** Seconds for which the main thread of a process wanted a core and another had it. */
export function waitedSeconds(pid: number): number {
  const [, waitedNs] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ');
  return Number(waitedNs) / 1e9;
}

export type CpuByPart = Partial<Record<Part, number>>;

/** Seconds used so far, by part. */
export function cpuOf({ pids }: Pick<Target, 'pids'>): CpuByPart {
  return Object.fromEntries(
    Object.entries(pids).map(([part, list]) => [part, list.reduce((sum, pid) => sum + cpuSeconds(pid), 0)]),
  );
}

/** What was used between two looks. */
export function cpuBetween(before: CpuByPart, after: CpuByPart): CpuByPart {
  return Object.fromEntries(
    Object.entries(after).map(([part, seconds]) => [part, seconds - (before[part as Part] ?? 0)]),
  );
}

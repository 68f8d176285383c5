// CPU time, from /proc: of processes (user and system time of all their threads, living and ended) and of the machine.

import { readFileSync } from 'node:fs';
import type { Part, Target } from './servers/target.js';

/** Unit of CPU times in /proc (USER_HZ); fixed, and independent of the kernel's own tick. */
const TICKS_PER_SECOND = 100;
// Fields of /proc/<pid>/stat, counted from behind the name.
const [UTIME, STIME, CUTIME, CSTIME] = [11, 12, 13, 14] as const;

/** Seconds that this process and those of its children that have ended have used. */
function ownSeconds(): number {
  return sumOf(process.pid, UTIME, STIME, CUTIME, CSTIME);
}

/** Seconds of CPU that a process has used so far. */
function sumOf(pid: number, ...fields: readonly number[]): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The name stands in parentheses and may hold anything.
  const values = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.reduce((sum, field) => sum + Number(values[field]), 0) / TICKS_PER_SECOND;
}

/**
 * Seconds that all cores together could have worked so far; of them, in processes, and taken by the host of a virtual
 * machine.
 */
function machineCpu() {
  const stat = readFileSync('/proc/stat', 'latin1');
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, stolen = 0] = stat
    .slice(0, stat.indexOf('\n'))
    .split(/ +/)
    .slice(1)
    .map((ticks) => Number(ticks) / TICKS_PER_SECOND);
  const busy = user + nice + system;
  return { capacity: busy + idle + iowait + irq + softirq + stolen, busy, stolen };
}

export type CpuByPart = Partial<Record<Part, number>>;

/** Seconds used so far, by part. */
export function cpuOf({ pids }: Pick<Target, 'pids'>): CpuByPart {
  return Object.fromEntries(
    Object.entries(pids).map(([part, list]) => [
      part,
      list.reduce((sum, pid) => sum + sumOf(pid, UTIME, STIME), 0),
    ]),
  );
}

/** What was used between two looks. */
export function cpuBetween(before: CpuByPart, after: CpuByPart): CpuByPart {
  return Object.fromEntries(
    Object.entries(after).map(([part, seconds]) => [part, seconds - (before[part as Part] ?? 0)]),
  );
}

/** Shares of the CPU time that all cores had to give: stolen by the host, and taken by processes that do not belong here. */
export interface Disturbance {
  readonly stolen: number;
  readonly others: number;
}

export interface Metered {
  readonly cpu: CpuByPart;
  readonly disturbance: Disturbance;
}

/** Begins to measure; the function that comes back tells what has been used since. Children must have ended by then. */
export function startMeter(target: Pick<Target, 'pids'>): () => Metered {
  const parts = cpuOf(target);
  const machine = machineCpu();
  const own = ownSeconds();
  return () => {
    const cpu = cpuBetween(parts, cpuOf(target));
    const now = machineCpu();
    const ours = Object.values(cpu).reduce((sum, used) => sum + used, ownSeconds() - own);
    const capacity = now.capacity - machine.capacity;
    const others = Math.max(0, now.busy - machine.busy - ours) / capacity;
    return { cpu, disturbance: { stolen: (now.stolen - machine.stolen) / capacity, others } };
  };
}

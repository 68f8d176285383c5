// For tests that kill: a parent in a process of its own, and the living members of a process group.

import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';

export interface Started {
  readonly url: string;
  readonly pid: number;
}

/** @param setting a server's folder, or the program's stopMs */
export async function startParent(what: 'clickhouse' | 'stubborn', setting: string) {
  const parent = fork(new URL('./parent.js', import.meta.url), [what, setting], { execArgv: [] });
  const [started] = (await once(parent, 'message')) as [Started];
  return { ...started, parent };
}

/** Living processes of the group that a supervised child leads; zombies only wait for init. */
function groupOf(pid: number): number[] {
  const processes = execFileSync('ps', ['-A', '-o', 'pid=,pgid=,stat=']).toString().trim().split('\n');
  return processes.flatMap((line) => {
    const [member, group, state = ''] = line.trim().split(/\s+/);
    return Number(group) === pid && !state.startsWith('Z') ? [Number(member)] : [];
  });
}

export function groupIsAlive(pid: number): boolean {
  return groupOf(pid).length > 0;
}

export async function kill9(child: ChildProcess): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

export const outsideAddress = () =>
  Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal)?.address;

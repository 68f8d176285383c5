// Processes of a `start`, from /proc: each has DATA_DIR in its environment. Redis overwrites that, but works in the folder.

import { readdir, readFile, readlink } from 'node:fs/promises';

export interface Process {
  readonly pid: number;
  readonly title: string;
}

export async function processesOf(dataDir: string): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const all = await Promise.all(pids.map((pid) => describe(pid, dataDir)));
  return all.filter((process) => process !== undefined);
}

export async function findProcess(dataDir: string, title: RegExp): Promise<Process | undefined> {
  return (await processesOf(dataDir)).find((process) => title.test(process.title));
}

async function describe(pid: number, dataDir: string): Promise<Process | undefined> {
  try {
    const environ = await readFile(`/proc/${pid}/environ`, 'utf8'); // empty for what is dead and not yet reaped
    const cwd = await readlink(`/proc/${pid}/cwd`);
    if (!environ.split('\0').includes(`DATA_DIR=${dataDir}`) && !cwd.startsWith(dataDir)) return undefined;
    const title = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
    return { pid, title };
  } catch {
    return undefined; // gone, or not ours to look at
  }
}

// The machine and the versions of a run.

import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
import { loadUws } from '../src/http/uws.js';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  /** Of programs; the commit's package-lock.json has those of packages. */
  readonly versions: Readonly<Record<string, string>>;
}

export async function describeMachine(): Promise<Machine> {
  const version = (pattern: RegExp, ...command: readonly [file: string, ...args: string[]]) =>
    pattern.exec(output(...command))?.[1] ?? 'missing';
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    versions: {
      'Node.js': process.versions.node,
      Redis: version(/v=(\S+)/, 'redis-server', '--version'),
      wrk: version(/(\d[\d.]+\S*)/, 'wrk', '--version'),
      webdis: version(/Version: (\S+)/, 'dpkg', '--status', 'webdis'),
      nginx: version(/nginx\/(\S+)/, 'sh', '-c', 'PATH=$PATH:/usr/sbin nginx -v 2>&1'),
      'uWebSockets.js': (await loadUws()).from,
    },
  };
}

/** The output of a program; some print their version and fail. */
function output(file: string, ...args: string[]): string {
  try {
    return execFileSync(file, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch (error) {
    return String((error as { stdout?: string }).stdout ?? '');
  }
}

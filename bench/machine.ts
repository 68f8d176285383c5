// The machine and the versions of a run.

import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
import { loadUws } from '../src/http/uws.js';

export type Machine = Awaited<ReturnType<typeof describeMachine>>;

export async function describeMachine() {
  const version = (pattern: RegExp, ...command: readonly [file: string, ...args: string[]]) =>
    pattern.exec(output(...command))?.[1] ?? 'missing';
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 1024 ** 3),
    kernel: release(),
    /** Of programs; the commit's package-lock.json has those of packages. */
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

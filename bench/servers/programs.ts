// Programs of the system that the benchmark needs; without a peer's program its cases are left out.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { LUA_MODULE } from '../peers/nginx.js';
import type { TargetSpec } from './target.js';

/** Why this server can't run here; undefined if it can. */
export function missingProgram(server: TargetSpec['server']): string | undefined {
  if (server === 'webdis' && !isHere('webdis')) return 'webdis is missing (apt-get install webdis)';
  if (server === 'nginx' && !(isHere('nginx') && existsSync(LUA_MODULE)))
    return 'nginx with Lua is missing (apt-get install libnginx-mod-http-lua)';
  return undefined;
}

/** @throws if the program is missing */
export function requireProgram(name: string): void {
  if (!isHere(name)) throw new Error(`${name} is missing (apt-get install ${name})`);
}

function isHere(name: string): boolean {
  return spawnSync('sh', ['-c', `PATH=$PATH:/usr/sbin command -v ${name}`]).status === 0;
}

// Keeps the embedded ClickHouse's URL, with the service's password, in a file that only the data folder's owner can
// read.

import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SERVICE_USER } from './users.js';

const FILE = 'service-url';

export function readServiceUrl(dir: string): string | undefined {
  try {
    const url = readFileSync(join(dir, FILE), 'utf8').trim();
    return URL.canParse(url) && new URL(url).password !== '' ? url : undefined;
  } catch {
    return undefined;
  }
}

export function servicePassword(dir: string): string {
  const kept = readServiceUrl(dir);
  return kept === undefined ? randomBytes(24).toString('base64url') : new URL(kept).password;
}

export function writeServiceUrl(dir: string, password: string, port: number): string {
  const url = `http://${SERVICE_USER}:${password}@127.0.0.1:${port}`;
  const file = join(dir, FILE);
  rmSync(`${file}.new`, { force: true });
  writeFileSync(`${file}.new`, `${url}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(`${file}.new`, file);
  return url;
}

/** Afterwards, the next start makes a new password. */
export function forgetServiceUrl(dir: string): void {
  rmSync(join(dir, FILE), { force: true });
}

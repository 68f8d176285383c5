// Where the embedded ClickHouse listens and with which password its service user is let in: one URL in a file that
// only its owner may read, in the folder of the data. Made by the process that has the folder; read by the commands
// that need it (`flush`, `migrate`, `sql --write`).

import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SERVICE_USER } from './users.js';

const FILE = 'service-url';

/** `http://user:password@127.0.0.1:port`; undefined where there is none. */
export function readServiceUrl(dir: string): string | undefined {
  try {
    const url = readFileSync(join(dir, FILE), 'utf8').trim();
    return URL.canParse(url) && new URL(url).password !== '' ? url : undefined;
  } catch {
    return undefined;
  }
}

/** The password that the folder's file has; a new one where there is none. */
export function servicePassword(dir: string): string {
  const kept = readServiceUrl(dir);
  return kept === undefined ? randomBytes(24).toString('base64url') : new URL(kept).password;
}

/** Renamed into place, so that a reader finds a whole URL or none. @returns the URL */
export function writeServiceUrl(dir: string, password: string, port: number): string {
  const url = `http://${SERVICE_USER}:${password}@127.0.0.1:${port}`;
  const file = join(dir, FILE);
  rmSync(`${file}.new`, { force: true });
  writeFileSync(`${file}.new`, `${url}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(`${file}.new`, file);
  return url;
}

/** From here on there is no password: the next start makes one. */
export function forgetServiceUrl(dir: string): void {
  rmSync(join(dir, FILE), { force: true });
}

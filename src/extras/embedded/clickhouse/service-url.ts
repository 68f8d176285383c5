// The URL of the embedded ClickHouse with the service user's password, in a file of the data folder that only its owner may
// read. The embedded ClickHouse writes it; `flush`, `migrate` and `sql --write` read it.

import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SERVICE_USER } from './users.js';

const FILE = 'service-url';

/** `http://user:password@127.0.0.1:port`; undefined if there is no valid file. */
export function readServiceUrl(dir: string): string | undefined {
  try {
    const url = readFileSync(join(dir, FILE), 'utf8').trim();
    return URL.canParse(url) && new URL(url).password !== '' ? url : undefined;
  } catch {
    return undefined;
  }
}

/** The password in the file; a new one if there is no file. */
export function servicePassword(dir: string): string {
  const kept = readServiceUrl(dir);
  return kept === undefined ? randomBytes(24).toString('base64url') : new URL(kept).password;
}

/** Writes atomically. @returns the URL */
export function writeServiceUrl(dir: string, password: string, port: number): string {
  const url = `http://${SERVICE_USER}:${password}@127.0.0.1:${port}`;
  const file = join(dir, FILE);
  rmSync(`${file}.new`, { force: true });
  writeFileSync(`${file}.new`, `${url}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(`${file}.new`, file);
  return url;
}

/** The next start makes a new password. */
export function forgetServiceUrl(dir: string): void {
  rmSync(join(dir, FILE), { force: true });
}

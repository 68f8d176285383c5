// Generates an API key and the dashboard's token, and keeps them in the data folder.

import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { StartupError } from '../../errors.js';

const KEY = /^[\x21-\x2b\x2d-\x7e]{16,}$/; // valid in API_KEYS

export function ownApiKey(folder: string): Promise<string> {
  return ownSecret(apiKeyFile(folder), 'sk_');
}

export function ownDashboardToken(folder: string): Promise<string> {
  return ownSecret(dashboardTokenFile(folder), '');
}

export function newKey(prefix = 'sk_'): string {
  return `${prefix}${randomBytes(32).toString('base64url')}`;
}

export function apiKeyFile(folder: string): string {
  return resolve(folder, 'api-key');
}

export function dashboardTokenFile(folder: string): string {
  return resolve(folder, 'dashboard-token');
}

async function ownSecret(path: string, prefix: string): Promise<string> {
  const kept = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new StartupError(`${path} can't be read (${error.code}).`);
  });
  if (kept !== undefined) {
    if (KEY.test(kept.trim())) return kept.trim();
    throw new StartupError(`${path} does not hold a key; delete it, and a new one is made.`);
  }
  const key = newKey(prefix);
  // Renames a complete file, so that a crash leaves a whole key or none.
  await rm(`${path}.new`, { force: true });
  await writeFile(`${path}.new`, `${key}\n`, { mode: 0o600, flag: 'wx' });
  await rename(`${path}.new`, path);
  return key;
}

// Makes an API key and the dashboard's token if no setting has them. They are stored in the data folder.

import { randomBytes } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StartupError } from '../../errors.js';

const KEY = /^[\x21-\x2b\x2d-\x7e]{16,}$/; // valid in API_KEYS

/** @throws StartupError if the file holds something else */
export function ownApiKey(folder: string): Promise<string> {
  return ownSecret(folder, 'api-key', 'sk_');
}

/** @throws StartupError if the file holds something else */
export function ownDashboardToken(folder: string): Promise<string> {
  return ownSecret(folder, 'dashboard-token', '');
}

/** Reads the secret, or makes it. */
async function ownSecret(folder: string, file: string, prefix: string): Promise<string> {
  const path = join(folder, file);
  const kept = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new StartupError(`${path} can't be read (${error.code}).`);
  });
  if (kept !== undefined) {
    if (KEY.test(kept.trim())) return kept.trim();
    throw new StartupError(`${path} does not hold a key; delete it, and a new one is made.`);
  }
  const key = `${prefix}${randomBytes(32).toString('base64url')}`;
  // Renamed into place: a crash leaves a whole key or none.
  await rm(`${path}.new`, { force: true });
  await writeFile(`${path}.new`, `${key}\n`, { mode: 0o600, flag: 'wx' });
  await rename(`${path}.new`, path);
  return key;
}

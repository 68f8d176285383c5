// What extras bring, found in their folders.

import { existsSync, readdirSync } from 'node:fs';
import type { Keys } from '../../src/redis/keys.js';

type KeysOf = (keys: Keys) => Readonly<Record<string, unknown>>;

/** The functions of each `src/extras/<name>/keys.ts`. */
export async function keysOfExtras(): Promise<KeysOf[]> {
  const extras = new URL('../../src/extras/', import.meta.url);
  const files = readdirSync(extras).map((name) => new URL(`${name}/keys.js`, extras));
  const modules = await Promise.all(
    files.filter((file) => existsSync(file)).map((file) => import(file.href)),
  );
  return modules.flatMap((module) => Object.values<KeysOf>(module));
}

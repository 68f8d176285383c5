// The extras of `serve` with other parts, and what extras bring, found in their folders.

import { existsSync, readdirSync } from 'node:fs';
import type { Extra } from '../../src/app/extra.js';
import type { Config } from '../../src/config.js';
import { EXTRAS } from '../../src/extras/extras.js';
import type { Keys } from '../../src/redis/keys.js';

export function extrasWith(by: Extra<Config>, instead: Extra<Config>): Extra<Config>[] {
  return EXTRAS.map((one) => (one === instead ? by : one));
}

type KeysOf = (keys: Keys) => Readonly<Record<string, unknown>>;

/** The functions of each `src/extras/<name>/keys.ts`. */
export async function keysOfExtras(): Promise<KeysOf[]> {
  const extras = new URL('../../src/extras/', import.meta.url);
  const files = readdirSync(extras).map((name) => new URL(`${name}/keys.js`, extras));
  const modules = await Promise.all(
    files.filter((file) => existsSync(file)).map((file) => import(file.href)),
  );
  return modules.flatMap((module) =>
    Object.values<unknown>(module).filter((one): one is KeysOf => typeof one === 'function'),
  );
}

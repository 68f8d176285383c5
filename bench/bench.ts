// The context that every section gets.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchSettings } from './settings.js';
import { createPools } from './traffic/pools.js';

export type Bench = ReturnType<typeof createBench>;

/** @param dir folder for all files of the run; the caller removes it @param say reports progress */
export function createBench(dir: string, settings: BenchSettings, say: (sentence: string) => void) {
  const pools = join(dir, 'pools');
  mkdirSync(pools);
  let folders = 0;
  /** The path of a new folder. */
  const folder = () => join(dir, `f${folders++}`);
  return { settings, say, pool: createPools(pools, settings), folder };
}

/** True if ONLY names this section, group or case, or is missing. */
export function isWanted({ settings: { only } }: Pick<Bench, 'settings'>, name: string): boolean {
  return only === undefined || only.test(name);
}

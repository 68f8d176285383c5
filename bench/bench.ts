// The context that every section gets.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchSettings } from './settings.js';
import { Pools } from './traffic/pools.js';

export interface Bench {
  readonly settings: BenchSettings;
  readonly pools: Pools;
  /** Reports progress. */
  readonly say: (sentence: string) => void;
  /** The path of a new folder. */
  folder(): string;
}

/** @param dir folder for all files of the run; the caller removes it */
export function createBench(dir: string, settings: BenchSettings, say: (sentence: string) => void): Bench {
  const pools = join(dir, 'pools');
  mkdirSync(pools);
  let folders = 0;
  return { settings, say, pools: new Pools(pools, settings), folder: () => join(dir, `f${folders++}`) };
}

/** True if ONLY names this section, group or case, or is missing. */
export function isWanted({ settings: { only } }: Pick<Bench, 'settings'>, name: string): boolean {
  return only === undefined || only.test(name);
}

// The context that every section gets.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchSettings } from './settings.js';
import { Pools } from './traffic/pools.js';

export interface Bench {
  readonly settings: BenchSettings;
  readonly pools: Pools;
  /** Says what is being done. */
  readonly say: (sentence: string) => void;
  /** The path of a new folder. */
  folder(): string;
}

/** @param dir folder for all that the run makes; the caller removes it */
export function createBench(dir: string, settings: BenchSettings, say: (sentence: string) => void): Bench {
  const pools = join(dir, 'pools');
  mkdirSync(pools);
  let folders = 0;
  return { settings, say, pools: new Pools(pools, settings), folder: () => join(dir, `f${folders++}`) };
}

/** Whether a section or a case is among those asked for. */
export function isWanted({ settings: { only } }: Bench, name: string): boolean {
  return only === undefined || only.test(name);
}

// What every section is given.

import { join } from 'node:path';
import type { BenchSettings } from './settings.js';
import type { Pools } from './traffic/pools.js';

export interface Bench {
  readonly settings: BenchSettings;
  readonly pools: Pools;
  /** Says what is being done. */
  readonly say: (sentence: string) => void;
  /** The path of a folder that nobody had before; it is removed at the end at the latest. */
  folder(): string;
}

let folders = 0;

export function createBench(
  dir: string,
  settings: BenchSettings,
  pools: Pools,
  say: (sentence: string) => void,
): Bench {
  return { settings, pools, say, folder: () => join(dir, `f${folders++}`) };
}

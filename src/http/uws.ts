// Loads uWebSockets.js. No npm package has binaries for all supported Node versions, so the newest that loads is used.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { StartupError } from '../errors.js';

export type Uws = typeof import('uWebSockets.js');

export interface LoadedUws {
  readonly uws: Uws;
  readonly from: string;
}

const require = createRequire(import.meta.url);

const SOURCES = [
  {
    name: '@btc-vision/uwebsockets.js',
    // Not by import(): if the module throws, that also ends the process on Node 20.
    load: () => require('@btc-vision/uwebsockets.js'),
    manifest: './package.json',
  },
  { name: 'uWebSockets.js', load: () => import('uWebSockets.js'), manifest: '../package.json' },
] as const;

export async function loadUws(): Promise<LoadedUws> {
  const errors: string[] = [];
  for (const { name, load, manifest } of SOURCES) {
    try {
      const uws = (await load()) as Uws;
      const file = new URL(manifest, import.meta.resolve(name));
      const found = JSON.parse(readFileSync(file, 'utf8')) as { name: string; version: string };
      return { uws, from: `${found.name}@${found.version}` };
    } catch (error) {
      errors.push((error as Error).message);
    }
  }
  throw new StartupError(whyNoneLoads(errors));
}

export function whyNoneLoads(errors: readonly string[]): string {
  const all = errors.join('\n');
  const glibc = [...all.matchAll(/`GLIBC_([\d.]+)' not found/g)].at(-1)?.[1];
  const older = /Cannot find package 'uWebSockets\.js'/.test(all)
    ? ' and `npm install uWebSockets.js@npm:uws-pack@20.0.8`'
    : '';
  return glibc === undefined
    ? 'uWebSockets.js has no binary for this version of Node on this system: use Node 24 with glibc 2.38 or newer ' +
        `(Debian 13, Ubuntu 24.04), or Node 20 or 22${older}.`
    : `uWebSockets.js needs glibc ${glibc} or newer for this version of Node (Debian 13, Ubuntu 24.04), and this ` +
        `system's is older: use Node 20 or 22${older}.`;
}

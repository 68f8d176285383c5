// Part of `make build`: minifies the scripts of a shop's pages into dist/. `serve` finds them by the hash of their source.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { minify } from 'terser';
import { MINIFIED, minifiedName, SCRIPTS, sourceOf } from '../dist/src/extras/storefront/scripts.js';

rmSync(MINIFIED, { recursive: true, force: true });
mkdirSync(MINIFIED);
for (const script of SCRIPTS) {
  const source = sourceOf(script);
  const isModule = script === 'page';
  const { code } = await minify(source, {
    ecma: 2017,
    module: isModule,
    compress: { passes: 3, unsafe: true },
  });
  writeFileSync(new URL(minifiedName(source), MINIFIED), code);
}

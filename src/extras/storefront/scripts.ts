// The texts of /beacon.js, of /wishlist.js, which is the beacon with files of kit/ included, and of the second script
// that /wishlist.js imports. `make build` minifies them. A script that has changed since then is served unminified.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';

// The path leads from dist/ to the sources, because the scripts are not compiled.
const SOURCES = new URL('../../../../src/extras/storefront/', import.meta.url);
/** The folder of minified scripts, which are named by a hash of their source. */
export const MINIFIED = new URL('minified/', import.meta.url);
/** The order matters: `lazy` extends a class of `heart`, and `start` runs the rest. */
const KIT = ['network', 'wishes', 'sync', 'item', 'heart', 'looks', 'smart-save', 'cart', 'lazy', 'start'];
const PAGE = ['page-kit', 'page-looks', 'page-toast', 'page-prices', 'page-row', 'page', 'page-popular'];

export const SCRIPTS = ['beacon', 'wishlist', 'page'] as const;
type Script = (typeof SCRIPTS)[number];

export function sourceOf(script: Script): string {
  if (script === 'page') return filesOf(PAGE);
  const beacon = read('beacon/beacon.js');
  if (script === 'beacon') return beacon;
  return included(included(beacon, 'first', ['first']), 'kit', KIT);
}

function included(text: string, place: string, names: readonly string[]): string {
  const comment = `// @include ${place}`;
  if (!text.includes(comment)) throw new Error(`beacon.js has no "${comment}"`);
  return text.replace(comment, () => filesOf(names));
}

function filesOf(names: readonly string[]): string {
  return names.map((name) => read(`kit/${name}.js`)).join('\n');
}

export function minifiedName(source: string): string {
  return `${hashOf(source)}.js`;
}

/** @param name the script's file name without `.js`; the script finds its tag by it */
export function scriptText(script: Script, name: string): string {
  const source = sourceOf(script);
  const minified = new URL(minifiedName(source), MINIFIED);
  const text = existsSync(minified) ? readFileSync(minified, 'utf8') : source;
  return text
    .replaceAll(/\/beacon(\\?)\.js/g, `/${name}$1.js`)
    .replace('beacon-page.js', () => `${name}-page.js?v=${hashOf(sourceOf('page')).slice(0, 8)}`);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function read(file: string): string {
  return readFileSync(new URL(file, SOURCES), 'utf8');
}

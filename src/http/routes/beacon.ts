// GET /beacon.js, the script that counts visits from a shop's pages, and GET /wishlist.js, the kit: the same script with the
// files of ../kit in it. No minifier: gzip leaves under 2 KB and 10 KB.

import { readFileSync } from 'node:fs';
import type { Operation } from '../operation.js';
import { JAVASCRIPT } from '../own-pages.js';
import { FILE_HEADERS, filePages, staticFile } from './static-file.js';

// dist/src/http/routes/ -> the project's root; the scripts are not compiled.
const FOLDER = new URL('../../../../src/http/', import.meta.url);
/** In this order: each uses what stands before it. */
const KIT = ['network', 'list', 'looks', 'heart', 'smart-save', 'page', 'cart', 'start'];
const COMMENTS_AND_INDENTATION = /^\s*\/\/[^\n]*\n|^\s*\/\*\*[\s\S]*?\*\/\n|^\s+/gm;
const BEACON = 'beacon';

/** @param scriptName of the kit, without `.js` */
export function storefrontScripts(scriptName: string): Operation[] {
  const beacon = read('beacon/beacon.js');
  return [
    scriptOperation(BEACON, 'getBeacon', 'The script that counts visits from pages', () => beacon),
    scriptOperation(scriptName, 'getKit', 'The kit: counts visits, and has the elements of a wishlist', () =>
      beacon
        // The script finds its tag by its name, also as a pattern.
        .replaceAll(/\/beacon(\\?)\.js/g, `/${scriptName}$1.js`)
        .replace('// @include first', () => read('kit/first.js'))
        .replace('// @include kit', () => KIT.map((name) => read(`kit/${name}.js`)).join('\n')),
    ),
  ];
}

function read(file: string): string {
  return readFileSync(new URL(file, FOLDER), 'utf8');
}

function scriptOperation(name: string, id: string, summary: string, source: () => string): Operation {
  const script = source().replace(COMMENTS_AND_INDENTATION, '');
  return {
    method: 'get',
    path: `/${name}.js`,
    doc: { id, tag: 'Storefront', summary, pages: filePages(JAVASCRIPT, 'The script') },
    accessGroup: 'open',
    maxBody: 0,
    headers: FILE_HEADERS,
    // Pages of any origin may load it, those that isolate themselves (COEP) too.
    handle: staticFile(JAVASCRIPT, () => script, {
      'cross-origin-resource-policy': 'cross-origin',
    }),
  };
}

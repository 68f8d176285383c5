// GET /beacon.js: the script that counts visits from a shop's pages. No minifier: what gzip leaves is under 2 KB.

import { readFileSync } from 'node:fs';
import type { Operation } from '../operation.js';
import { JAVASCRIPT } from '../own-pages.js';
import { FILE_HEADERS, filePages, staticFile } from './static-file.js';

// dist/src/http/routes/ -> the project's root; the script is not compiled.
const SOURCE = new URL('../../../../src/http/beacon/beacon.js', import.meta.url);
const WHOLE_LINE_COMMENTS_AND_INDENTATION = /^\s*\/\/[^\n]*\n|^\s+/gm;

export function beaconOperation(): Operation {
  const script = readFileSync(SOURCE, 'utf8').replace(WHOLE_LINE_COMMENTS_AND_INDENTATION, '');
  return {
    method: 'get',
    path: '/beacon.js',
    doc: {
      id: 'getBeacon',
      tag: 'Storefront',
      summary: 'The script that counts visits from pages',
      pages: filePages(JAVASCRIPT, 'The script'),
    },
    accessGroup: 'open',
    maxBody: 0,
    headers: FILE_HEADERS,
    // Pages of any origin may load it, those that isolate themselves (COEP) too.
    handle: staticFile(JAVASCRIPT, () => script, {
      'cross-origin-resource-policy': 'cross-origin',
    }),
  };
}

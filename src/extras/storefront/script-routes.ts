// GET /beacon.js, GET /wishlist.js, and its second script, GET /wishlist-page.js.

import type { Operation } from '../../http/operation.js';
import { JAVASCRIPT } from '../../http/own-pages.js';
import { FILE_HEADERS, filePages, staticFile } from '../../http/static-file.js';
import { scriptText } from './scripts.js';

export function storefrontScripts(scriptName: string): Operation[] {
  return [
    scriptOperation('beacon', 'getBeacon', 'The script that counts visits from pages', () =>
      scriptText('beacon', 'beacon'),
    ),
    scriptOperation(scriptName, 'getKit', 'The kit: counts visits, defines wishlist elements', () =>
      scriptText('wishlist', scriptName),
    ),
    scriptOperation(
      `${scriptName}-page`,
      'getKitPage',
      'The kit’s second script, which it imports for a wishlist page',
      () => scriptText('page', scriptName),
    ),
  ];
}

function scriptOperation(name: string, id: string, summary: string, text: () => string): Operation {
  return {
    method: 'get',
    path: `/${name}.js`,
    doc: { id, tag: 'Storefront', summary, pages: filePages(JAVASCRIPT, 'The script') },
    accessGroup: 'open',
    maxBody: 0,
    headers: FILE_HEADERS,
    // Pages of all origins may load the script, even pages with COEP.
    handle: staticFile(JAVASCRIPT, text, { 'cross-origin-resource-policy': 'cross-origin' }),
  };
}

// GET /beacon.js: the script that counts visits from a shop's pages. It is prepared once, at start, and differs
// only with its source, so browsers and CDNs may keep it. No minifier: what gzip leaves is under a kilobyte.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Operation } from './operation.js';

// dist/src/http/ -> the project's root; the script is not compiled.
const SOURCE = new URL('../../../src/http/beacon/beacon.js', import.meta.url);

/** Nobody waits for a new version: after an hour the old one still serves while it is asked for, for a day. */
const CACHE_CONTROL = 'public, max-age=3600, stale-while-revalidate=86400';
const WHOLE_LINE_COMMENTS_AND_INDENTATION = /^\s*\/\/.*\n|^\s+/gm;
const ACCEPTS_GZIP = /(^|,)\s*(gzip|\*)\s*(,|$|;\s*q=(?!0(\.0*)?\s*(,|$)))/i;

export function beaconOperation(): Operation {
  const script = readFileSync(SOURCE, 'utf8').replace(WHOLE_LINE_COMMENTS_AND_INDENTATION, '');
  const gzipped = gzipSync(script, { level: 9 });
  const tag = `"${createHash('sha256').update(script).digest('base64url').slice(0, 22)}"`;
  const headers = {
    // Weak, since it names the script and not its bytes: gzipped and plain are one version.
    etag: `W/${tag}`,
    'cache-control': CACHE_CONTROL,
    vary: 'Accept-Encoding',
    // Pages of any origin may load it, those that isolate themselves (COEP) too.
    'cross-origin-resource-policy': 'cross-origin',
  };
  const type = 'text/javascript; charset=utf-8';
  const plain = { type, headers, body: script };
  const small = { type, headers: { ...headers, 'content-encoding': 'gzip' }, body: gzipped };
  const unchanged = { status: '304 Not Modified', type, headers };
  return {
    method: 'get',
    path: '/beacon.js',
    doc: { summary: 'The script that counts visits from pages' },
    subject: 'open',
    maxBody: 0,
    headers: ['accept-encoding', 'if-none-match'],
    handle(request) {
      const known = request.header('if-none-match');
      if (known === '*' || known.includes(tag)) return unchanged;
      return ACCEPTS_GZIP.test(request.header('accept-encoding')) ? small : plain;
    },
  };
}

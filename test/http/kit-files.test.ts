// /wishlist.js as caches and block lists see it, and SCRIPT_NAME.

import { request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { startApp } from '../harness/app.js';
import { startTestRedis } from '../harness/redis.js';

const redis = await startTestRedis(t);

/** Generic patterns of EasyPrivacy and EasyList that a shop's script is likely to meet: `*` is any text, `^` a separator. */
const BLOCKED = [
  '/beacon.js',
  '/beacon.min.js',
  '/beacon/event/*',
  '/analytics.js?',
  '/tracker.js',
  '/_sess/script.js',
  '/analytics/js',
  '/api/pageview?',
  '/autotag.',
  '/autotrack.js',
  '/ga.js',
  '/inject.js?key=',
  '/scroll-track.js',
  '/slot_cmp.js',
  '_tracker.js?',
  '_stats.js?',
  '/trackpixel.',
  '/visitorcounter.',
  '/pagevisit.',
  '/hitcount.',
  '/wt_tag.js',
  '/wa_process.js',
  '/admiral.js',
  '/ads.js',
  '/banner.js',
  '/adserver.',
  '.com/track?',
];

const isBlocked = (path: string) =>
  BLOCKED.some((pattern) => {
    const source = pattern
      .replace(/[.+?${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('^', '(?:[^\\w.%-]|$)');
    return new RegExp(source, 'i').test(`https://shop.example${path}`);
  });

t.test('the default name is on no common block list; the beacon’s is', async (t) => {
  t.ok(isBlocked('/beacon.js'), 'the patterns are read');
  for (const path of [
    '/wishlist.js',
    '/apps/wishmeter/wishlist.js',
    '/item/check?key=pk_1',
    '/product/visit?count=true&key=pk_1',
  ])
    t.notOk(isBlocked(path), path);
});

t.test('SCRIPT_NAME names its path, and the script finds its own tag', async (t) => {
  const app = await startApp(t, redis, { env: { SCRIPT_NAME: 'hearts' } });
  const { status, text, headers } = await app.get('/hearts.js');
  t.equal(status, 200);
  t.match(headers, {
    'content-type': 'text/javascript; charset=utf-8',
    'cross-origin-resource-policy': 'cross-origin',
  });
  t.match(text, 'script[src*="/hearts.js"]');
  t.notMatch(text, /beacon\\?\.js/);
  t.notMatch(text, /@include|^\s*\/\//m, 'all files are in it, and no comment; if not, run make build');
  t.equal((await app.get('/wishlist.js')).status, 404);
  t.ok((await app.get('/beacon.js')).text.length < text.length);
  t.same(gunzipSync(await zipped(app.port, '/hearts.js')).toString(), text);
});

t.test('minified and gzipped it has 10 KB at most', async (t) => {
  const app = await startApp(t, redis);
  const { length } = await zipped(app.port, '/wishlist.js');
  t.ok(length <= 10 * 1024, `${length} bytes; if this is 17,000, run make build`);
});

function zipped(port: number, path: string): Promise<Buffer> {
  return new Promise((done, failed) => {
    const asked = request({ port, path, headers: { 'accept-encoding': 'gzip' } }, async (answer) => {
      const parts: Buffer[] = [];
      for await (const part of answer) parts.push(part as Buffer);
      done(Buffer.concat(parts));
    });
    asked.on('error', failed);
    asked.end();
  });
}

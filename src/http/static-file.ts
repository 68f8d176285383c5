// Static files with caching and gzip, compressed once, on another thread.

import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Answer, Request } from './operation.js';

export const FILE_HEADERS = ['accept-encoding', 'if-none-match'];

const CACHE_CONTROL = 'public, max-age=3600, stale-while-revalidate=86400';
const ACCEPTS_GZIP = /(^|,)\s*(gzip|\*)\s*(,|$|;\s*q=(?!0(\.0*)?\s*(,|$)))/i;

export const CACHED = ['ETag', 'Cache-Control'];

export const fileUnchanged = {
  304: { description: 'The file is the one of `If-None-Match`', types: [], headers: CACHED },
};

export const filePages = (type: string, description: string) => ({
  200: { description, types: [type], headers: CACHED },
  ...fileUnchanged,
});

type Content = string | Buffer;

export function staticFile(
  type: string,
  read: () => Content | Promise<Content>,
  more: Readonly<Record<string, string>> = {},
): (input: unknown, request: Request) => Promise<Answer> {
  let prepared: ReturnType<typeof prepare> | undefined;
  return async (_, request) => {
    prepared ??= prepare(type, read, more).catch((error) => {
      prepared = undefined;
      throw error;
    });
    return (await prepared)(request);
  };
}

async function prepare(
  type: string,
  read: () => Content | Promise<Content>,
  more: Readonly<Record<string, string>>,
): Promise<(request: Request) => Answer> {
  const content = await read();
  const gzipped = await promisify(gzip)(content, { level: 9 });
  const tag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`;
  const headers = {
    // A weak tag, because gzipped and plain bytes share it.
    etag: `W/${tag}`,
    'cache-control': CACHE_CONTROL,
    vary: 'Accept-Encoding',
    ...more,
  };
  const plain = { type, headers, body: content };
  const small = { type, headers: { ...headers, 'content-encoding': 'gzip' }, body: gzipped };
  const unchanged = { status: '304 Not Modified', headers };
  return (request) => {
    const known = request.header('if-none-match');
    if (known === '*' || known.includes(tag)) return unchanged;
    return ACCEPTS_GZIP.test(request.header('accept-encoding')) ? small : plain;
  };
}

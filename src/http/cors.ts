// CORS for ALLOWED_ORIGINS: what a page of another origin may send and read.

import type { HttpResponse } from 'uWebSockets.js';
import type { Access } from './access.js';

const REQUEST_HEADERS = 'Content-Type, X-API-Key, Idempotency-Key, X-Request-Id';
const EXPOSED_HEADERS = 'X-Request-Id, Retry-After';
/** Seconds; the longest that Chromium takes. */
const MAX_AGE = '7200';

/** Headers of every answer. */
export function writeCors(access: Access, res: HttpResponse, origin: string): void {
  if (!access.hasOrigins) return;
  res.writeHeader('vary', 'Origin');
  if (!access.isAllowedOrigin(origin)) return;
  res.writeHeader('access-control-allow-origin', origin);
  res.writeHeader('access-control-expose-headers', EXPOSED_HEADERS);
}

/** Headers of a preflight's answer, beside those. */
export function writePreflight(access: Access, res: HttpResponse, origin: string, methods: string): void {
  res.writeHeader('allow', methods);
  if (!access.isAllowedOrigin(origin)) return;
  res.writeHeader('access-control-allow-methods', methods);
  res.writeHeader('access-control-allow-headers', REQUEST_HEADERS);
  res.writeHeader('access-control-max-age', MAX_AGE);
}

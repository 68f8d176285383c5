// Whether a person asks for a page. A browser that fetches a page in case it is wanted says so in a header; a robot that makes
// a preview of a link says so in its User-Agent; HEAD shows nothing.

import type { Request } from '../operation.js';
import { isRobot } from './robots.js';

/** To be named in `headers` of the operation. */
export const PREFETCH_HEADERS: readonly string[] = ['sec-purpose', 'purpose', 'x-moz'];

export function isByPerson(request: Pick<Request, 'head' | 'header' | 'isHead'>): boolean {
  if (request.isHead || isRobot(request.head.userAgent)) return false;
  return PREFETCH_HEADERS.every((name) => request.header(name) === '');
}

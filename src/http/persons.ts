// Recognises requests by people: not a prefetch, not by a robot, not HEAD.

import type { Request } from './operation.js';
import { isRobot } from './robots.js';

export const PREFETCH_HEADERS: readonly string[] = ['sec-purpose', 'purpose', 'x-moz'];

export function isByPerson(request: Pick<Request, 'head' | 'header' | 'isHead'>): boolean {
  if (request.isHead || isRobot(request.head.userAgent)) return false;
  return PREFETCH_HEADERS.every((name) => request.header(name) === '');
}

// Ids of events: UUID v7. Their random bytes come from a pool that is filled in one go; asking the system
// for them each time costs more than encoding the event does.

import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const BYTES = 16;
const pool = Buffer.alloc(BYTES * 256);
let next = pool.length;

/** @param at when the event happened, milliseconds since 1970 */
export function newEventId(at: number): string {
  if (next === pool.length) {
    randomFillSync(pool);
    next = 0;
  }
  const random = pool.subarray(next, next + BYTES);
  next += BYTES;
  return v7({ msecs: at, random });
}

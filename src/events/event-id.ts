// Ids of events: UUID v7. Their random bytes come from a pool that is filled in one go; asking the system
// for them each time costs more than encoding the event does.

import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const BYTES = 16;
const pool = Buffer.alloc(BYTES * 256);
let next = pool.length;

let order = 0;

/** Of two ids that this process makes for the same millisecond the later one is the greater. */
export function newOrderedId(at: number): string {
  order = (order + 1) | 0;
  return make({ msecs: at, seq: order >>> 0 });
}

/** @param at when the event happened, milliseconds since 1970 */
export function newEventId(at: number): string {
  return make({ msecs: at });
}

function make(options: { readonly msecs: number; readonly seq?: number }): string {
  if (next === pool.length) {
    randomFillSync(pool);
    next = 0;
  }
  const random = pool.subarray(next, next + BYTES);
  next += BYTES;
  return v7({ ...options, random });
}

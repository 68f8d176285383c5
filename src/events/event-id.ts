// Ids of events: UUID v7 (RFC 9562, 5.7). For speed, random digits are pooled and time digits cached.
//
//   tttttttt-tttt-7rrr-vrrr-rrrrrrrrrrrr    t: milliseconds since 1970; v: 8, 9, a or b; r: random

import { hash, randomBytes } from 'node:crypto';

const POOL_BYTES = 4_096;
let pool = '';
let next = 0;

let time = -1;
let start = '';

/** In an ordered id, `rrr-vrrr` is a counter. */
const ORDER_BITS = 26;
let order = 0;

/** Ids of this process ascend, also within a millisecond. */
export function newOrderedId(at: number): string {
  order = (order + 1) % 2 ** ORDER_BITS;
  const high = hex(order >>> 14, 3);
  const low = hex((order & 0x3fff) | 0x8000, 4);
  return `${startOf(at)}${high}-${low}-${random(12)}`;
}

export function newEventId(at: number): string {
  return idOf(at, random(19));
}

/** Returns the same id for the same arguments, so that a row that is recorded again counts once. */
export function eventIdOfName(at: number, name: string): string {
  return idOf(at, hash('sha256', name, 'hex'));
}

/** @param digits at least 19 of them */
function idOf(at: number, digits: string): string {
  const variant = '89ab89ab89ab89ab'.charAt(Number.parseInt(digits.charAt(18), 16));
  return `${startOf(at)}${digits.slice(0, 3)}-${variant}${digits.slice(3, 6)}-${digits.slice(6, 18)}`;
}

function startOf(at: number): string {
  if (at !== time) {
    const digits = hex(at, 12);
    time = at;
    start = `${digits.slice(0, 8)}-${digits.slice(8)}-7`;
  }
  return start;
}

function random(count: number): string {
  if (next + count > pool.length) {
    pool = randomBytes(POOL_BYTES).toString('hex');
    next = 0;
  }
  next += count;
  return pool.slice(next - count, next);
}

function hex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, '0');
}

// Visitors by number: visitor n has the same session id in every run and every process.

import { createRandom, type Random } from '../demo/random.js';

/** A UUID (version 4) made of the next chances. */
function uuid(random: Random): string {
  let hex = '';
  for (let i = 0; i < 4; i++) hex += word(random);
  const variant = '89ab'[Number.parseInt(hex[16] as string, 16) & 3];
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}

export function sessionId(visitor: number): string {
  return uuid(createRandom(visitor));
}

function word(random: Random): string {
  return Math.floor(random.next() * 2 ** 32)
    .toString(16)
    .padStart(8, '0');
}

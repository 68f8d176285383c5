// An identity's profile id: `<bucket>.<kind><hash>`, from SHA-256 of salt and name. Servers that race make the
// same id, reads need no write, and without the salt it can't be computed. (As good as HMAC: a truncated
// digest has no length extension.)

import { hash } from 'node:crypto';

export interface ProfileIds {
  of(name: string): string;
}

/** Base64url: 30 bits choose the bucket, 96 bits are the hash. */
const BUCKET_DIGITS = 5;
const HASH_DIGITS = 16;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const VALUE_OF = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUE_OF[DIGITS.charCodeAt(value)] = value;

/** @param salt of fixed length */
export function createProfileIds(salt: string, buckets: number): ProfileIds {
  // Only text: a Buffer costs more than the digest. Two small tables of buckets fit the processor's cache.
  const highDigits = Array.from({ length: Math.ceil(buckets / 36) }, (_, high) =>
    high === 0 ? '' : high.toString(36),
  );
  const lastDigits = (kind: string) => Array.from({ length: 36 }, (_, low) => `${low.toString(36)}.${kind}`);
  const [ofCustomers, ofSessions] = [lastDigits('c'), lastDigits('s')];
  return {
    of(name) {
      const salted = salt + name;
      const digest = hash('sha256', salted, 'base64url');
      const bucket = numberOf(digest, 0, BUCKET_DIGITS) % buckets;
      // C: and S: are c: and s: with a hashed id. Reads `salted`, which V8 has flattened for hash(), and not `name`.
      const lasts = (salted.charCodeAt(salt.length) | 0x20) === 0x63 ? ofCustomers : ofSessions;
      const start = (highDigits[Math.floor(bucket / 36)] as string) + (lasts[bucket % 36] as string);
      return start + digest.slice(BUCKET_DIGITS, BUCKET_DIGITS + HASH_DIGITS);
    },
  };
}

function numberOf(text: string, start: number, end: number): number {
  let bits = 0;
  for (let i = start; i < end; i++) bits = (bits << 6) | (VALUE_OF[text.charCodeAt(i)] as number);
  return bits;
}

// The profile id that an identity gets when it is first written: `<bucket>.<kind><hash>`.
//
// Bucket and hash are cut from SHA-256 over the deployment's secret salt and the identity's name, so two
// servers that race make the same id, a read can name it without writing, and no client without the salt can
// compute it or the bucket. (Half of the digest stays hidden, which is what makes hashing salt and name in
// one go as good as HMAC here: there is no length extension of a truncated digest. It costs a quarter.)
// The kind tells whether a customer or a session made it: a customer's own profile always has its owner.

import { hash } from 'node:crypto';

export interface ProfileIds {
  /** @param name the identity's name in Redis, see identityName */
  of(name: string): string;
}

/** 5 digits of base64url, 30 bits, choose the bucket; the 16 after them, 96 bits, are the hash. */
const BUCKET_DIGITS = 5;
const HASH_DIGITS = 16;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const VALUE_OF = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUE_OF[DIGITS.charCodeAt(value)] = value;

/** @param salt of the deployment; fixed length, so that salt and name can't run into each other */
export function createProfileIds(salt: string, buckets: number): ProfileIds {
  // Asked for every request: text all the way, because a Buffer costs more than the digest in it.
  const starts = Array.from({ length: buckets }, (_, bucket) => `${bucket.toString(36)}.`);
  return {
    of(name) {
      const digest = hash('sha256', salt + name, 'base64url');
      let bits = 0;
      for (let i = 0; i < BUCKET_DIGITS; i++) bits = (bits << 6) | (VALUE_OF[digest.charCodeAt(i)] as number);
      const start = starts[(bits >>> 0) % buckets] as string;
      const kind = (name.charCodeAt(0) | 0x20) === 0x63 ? 'c' : 's'; // C: and S: are c: and s: with a hashed id
      return start + kind + digest.slice(BUCKET_DIGITS, BUCKET_DIGITS + HASH_DIGITS);
    },
  };
}

/** Whether a customer's first write made this profile; then it has been that customer's from the start. */
export function isCustomerBorn(profileId: string): boolean {
  return profileId[profileId.indexOf('.') + 1] === 'c';
}

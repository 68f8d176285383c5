// The profile id that an identity gets when it is first written: `<bucket>.<kind><hash>`.
//
// Bucket and hash are cut from SHA-256 over the deployment's secret salt and the identity's name, so two
// servers that race make the same id, a read can name it without writing, and nobody without the salt can
// compute it or the bucket. (Half of the digest stays hidden, which is what makes hashing salt and name in
// one go as good as HMAC here: there is no length extension of a truncated digest. It costs a quarter.)
// The kind tells whether a customer or a session made it: a customer's own profile always has its owner.

import { hash } from 'node:crypto';

const HASH_BYTES = 12;

export interface ProfileIds {
  /** @param name the identity's name in Redis, see identityName */
  of(name: string): string;
}

/** @param salt of the deployment; fixed length, so that salt and name can't run into each other */
export function createProfileIds(salt: string, buckets: number): ProfileIds {
  return {
    of(name) {
      const digest = hash('sha256', salt + name, 'buffer');
      const bucket = digest.readUInt32LE(0) % buckets;
      const kind = name.charCodeAt(0) | 0x20; // C: and S: are c: and s: with a hashed id
      return `${bucket.toString(36)}.${String.fromCharCode(kind)}${digest.toString('base64url', 4, 4 + HASH_BYTES)}`;
    },
  };
}

/** Whether a customer's first write made this profile; then it has been that customer's from the start. */
export function isCustomerBorn(profileId: string): boolean {
  return profileId[profileId.indexOf('.') + 1] === 'c';
}

// Guests whose end a script has seen to be in time within the hour (lua/includes/retain.lua): the next visits of one need no look
// at its TTL, which is a sixth of Redis's CPU for a visit.
//
// A table of fingerprints and not a set of names: 4 MB for a million guests, and nothing for the garbage collector. Two guests
// in one slot take turns; that costs a look.

const SLOTS = 1 << 20;
/** Less than an hour, by more than a batch may take. */
const KEPT_MS = 55 * 60 * 1000;

export class KeptGuests {
  readonly #fingerprints = new Int32Array(SLOTS);
  #forgetAt = 0;

  has(profileId: string): boolean {
    return this.#fingerprints[slotOf(profileId)] === fingerprintOf(profileId);
  }

  add(profileId: string): void {
    this.#fingerprints[slotOf(profileId)] = fingerprintOf(profileId);
  }

  /** To be called before each batch. @param now of our monotonic clock */
  forgetOld(now: number): void {
    if (now < this.#forgetAt) return;
    this.#fingerprints.fill(0);
    this.#forgetAt = now + KEPT_MS;
  }
}

/** Profile ids end in 16 random digits (src/profiles/profile-id.ts). */
function slotOf(profileId: string): number {
  return bitsAt(profileId, profileId.length - 5) & (SLOTS - 1);
}

function fingerprintOf(profileId: string): number {
  return bitsAt(profileId, profileId.length - 10);
}

/** 30 bits of 5 digits. Seldom 0, the fingerprint of an empty slot. */
function bitsAt(digits: string, start: number): number {
  let bits = 0;
  for (let i = start; i < start + 5; i++) bits = (bits << 6) ^ digits.charCodeAt(i);
  return bits;
}

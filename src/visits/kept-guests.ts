// Guests whose TTL was checked within the hour (lua/includes/retain.lua). Their visits skip the check. Fingerprints take
// 4 MB for a million guests; guests that share an index displace each other.

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

  /** Call before each batch. @param now by `performance.now()` */
  forgetOld(now: number): void {
    if (now < this.#forgetAt) return;
    this.#fingerprints.fill(0);
    this.#forgetAt = now + KEPT_MS;
  }
}

function slotOf(profileId: string): number {
  return bitsAt(profileId, profileId.length - 5) & (SLOTS - 1);
}

function fingerprintOf(profileId: string): number {
  return bitsAt(profileId, profileId.length - 10);
}

/** @returns 30 bits of 5 digits. They are rarely 0, which marks an empty index. */
function bitsAt(digits: string, start: number): number {
  let bits = 0;
  for (let i = start; i < start + 5; i++) bits = (bits << 6) ^ digits.charCodeAt(i);
  return bits;
}

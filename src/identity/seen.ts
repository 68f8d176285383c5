// Which visitors this process has met today. A guest's last day is written at its door (lua/visits.lua), once a day by each
// process: a visit of one that is noted here costs nothing more.
//
// A table of digits of profile ids, in lines as a processor fetches them from memory: other digits of an id name its line,
// where it has one of 16 places. It is no larger than its visitors need, so that it mostly lies in the processor's cache: one
// that is half full gives way to an empty one four times as large, up to 64 MB, and in a full line one takes the place of
// another. Who is forgotten is met once more, which costs some commands. 30 bits tell those of a line apart: a guest of whom
// it is wrong, at most one look in 2^26, is not noted on that day.

import { numberOf } from './profile-id.js';

/** Places in a line: 64 bytes. */
const WAYS = 16;
const FIRST_PLACES = 2 ** 16;
const MOST_PLACES = 2 ** 24;

export class Seen {
  /** Seconds of a day, as scripts are told. */
  readonly dayS: string;
  readonly #dayMs: number;
  readonly #now: () => number;
  #ends = 0;
  #places = new Uint32Array(FIRST_PLACES);
  #taken = 0;

  /** @param dayS seconds of a day, other than 86,400 in tests */
  constructor(dayS = 86_400, now: () => number = Date.now) {
    this.dayS = String(dayS);
    this.#dayMs = dayS * 1_000;
    this.#now = now;
  }

  /** @param profileId the own profile of an identity */
  has(profileId: string): boolean {
    const now = this.#now();
    if (now >= this.#ends || now < this.#ends - this.#dayMs) this.#begin(now);
    const digits = digitsOf(profileId);
    return this.#places[this.#placeOf(profileId, digits)] === digits;
  }

  add(profileId: string): void {
    const digits = digitsOf(profileId);
    const place = this.#placeOf(profileId, digits);
    if (this.#places[place] === 0) this.#taken++;
    this.#places[place] = digits;
    const { length } = this.#places;
    if (this.#taken <= length / 2 || length === MOST_PLACES) return;
    this.#empty(4 * length);
  }

  /** Where these digits are, or may be put: at a free place, or in a full line at one that they name. */
  #placeOf(profileId: string, digits: number): number {
    const places = this.#places;
    const line = (numberOf(profileId, profileId.length - 4, profileId.length) * WAYS) & (places.length - 1);
    for (let place = line; place < line + WAYS; place++) {
      const there = places[place];
      if (there === digits || there === 0) return place;
    }
    return line + (digits % WAYS);
  }

  #begin(now: number): void {
    this.#ends = now + this.#dayMs;
    this.#empty(FIRST_PLACES);
  }

  /** A new table, since to clear a large one takes long. */
  #empty(places: number): void {
    this.#places = new Uint32Array(places);
    this.#taken = 0;
  }
}

/** The 5 digits before the last 4, which name the line; one more than that, since 0 is no visitor. */
function digitsOf(id: string): number {
  return numberOf(id, id.length - 9, id.length - 4) + 1;
}

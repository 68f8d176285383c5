// Which visitors this process has met today. A guest's last day is written at its door (lua/visits.lua), once a day by each
// process: a visit of one that is noted here costs nothing more. What is noted here is no new visitor, either.
//
// A table of digits of profile ids, each in the place that others of its digits name. One takes the place of another, who
// then is met once more: that costs some commands. The table takes 16 MB. 52 bits tell them apart: a guest of whom it is
// wrong, one look in 2^30, is not noted on that day.

const PLACES = 2 ** 22;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const VALUE_OF = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUE_OF[DIGITS.charCodeAt(value)] = value;

export class Seen {
  /** Seconds of a day, as scripts are told; empty where days are not noted. */
  readonly dayS: string;
  readonly #dayMs: number;
  readonly #now: () => number;
  #ends = 0;
  #places = new Uint32Array(PLACES);

  /** @param notesDays whether guests have a last day @param dayS seconds of a day, other than 86,400 in tests */
  constructor(notesDays: boolean, dayS = 86_400, now: () => number = Date.now) {
    this.dayS = notesDays ? String(dayS) : '';
    this.#dayMs = dayS * 1_000;
    this.#now = now;
  }

  /** @param profileId the own profile of an identity */
  has(profileId: string): boolean {
    const now = this.#now();
    if (now >= this.#ends || now < this.#ends - this.#dayMs) this.#begin(now);
    const end = profileId.length;
    return this.#places[placeOf(profileId, end)] === digitsOf(profileId, end);
  }

  add(profileId: string): void {
    const end = profileId.length;
    this.#places[placeOf(profileId, end)] = digitsOf(profileId, end);
  }

  #begin(now: number): void {
    this.#ends = now + this.#dayMs;
    this.#places.fill(0);
  }
}

/** The last 4 digits, less 2 bits. */
function placeOf(id: string, end: number): number {
  return numberOf(id, end - 4, end) % PLACES;
}

/** The 5 before them; one more than that, since 0 is no visitor. */
function digitsOf(id: string, end: number): number {
  return numberOf(id, end - 9, end - 4) + 1;
}

function numberOf(id: string, start: number, end: number): number {
  let bits = 0;
  for (let i = start; i < end; i++) bits = (bits << 6) | (VALUE_OF[id.charCodeAt(i)] as number);
  return bits;
}

// How many requests one caller may send per second (RATE_LIMIT, ANONYMOUS_RATE_LIMIT), over all workers of one `start`.
// Each worker counts what it accepted and tells the others, so nothing waits for Redis or for another process:
//
//   accepted ──▶ counted here ──a tenth of a worker's share, or 100 ms──▶ told to the others ──▶ counted there
//
// What workers don't know of each other yet is a tenth of the limit at most, beside what comes while a message is on its
// way. A flood may exceed the limit by that. What it had too much is a debt that the next second begins with, on each
// worker; and a caller who had more than a tenth too much gets, from then on, no more than its share of each worker,
// until a second in which that does not use up the limit.
//
// Seconds are the same for all callers and, by the
// monotonic clock of the machine, for all workers. What was counted is forgotten at once and without a timer: a
// caller may send twice as much in the moment around the end of a second.

import { ServiceError } from '../errors.js';

const SECOND_MS = 1_000;
/** Milliseconds after which the others know of a request at the latest. */
const TELL_MS = 100;
/** Of the limit: what may be accepted without the others' knowledge, and what may be too much without consequences. */
const TOLERANCE = 0.1;
/** Callers with one request in a while are told of every 100 ms, however low the limit. */
const LEAST_TO_TELL = 2;
/** Callers of one window that are told apart, about 200 bytes each; with more the oldest are forgotten. */
const MOST_CALLERS = 100_000;

/** What a worker has accepted in a second, as it travels to the others. */
export interface Accepted {
  readonly second: number;
  /** Callers, and how many requests of each. */
  readonly requests: readonly (readonly [string, number])[];
}

/** The other workers on the port. */
export interface Peers {
  /** How many workers there are, with this one. */
  readonly workers: number;
  /** Milliseconds of a clock that is the same for all of them, and never goes back. */
  now(): number;
  tell(accepted: Accepted): void;
}

interface Tally {
  readonly caller: string;
  /** Accepted in this second by any worker, and the debt of the one before. */
  count: number;
  /** That this worker may still accept; less than the limit's rest where the caller gets shares. */
  own: number;
  /** Accepted here, and not told yet. */
  untold: number;
  /** Whether it is among those that will be told. */
  isNoted: boolean;
  readonly isShared: boolean;
}

export class RateLimit {
  readonly perSecond: number;
  readonly #peers: Peers | undefined;
  readonly #now: () => number;
  readonly #share: number;
  readonly #toTell: number;
  #second = 0;
  #ends = 0;
  #tallies = new Map<string, Tally>();
  /** Of the second before: what was accepted in it may be told late. */
  #last = new Map<string, Tally>();
  /** Those that the next second does not begin without: in debt, or with shares. */
  #kept = new Set<Tally>();
  #untold: Tally[] = [];
  #telling: NodeJS.Timeout | undefined;
  #isHurried = false;

  /**
   * @param perSecond at least 1
   * @param peers absent where this process is alone
   * @param now milliseconds, where it is alone
   */
  constructor(perSecond: number, peers?: Peers, now: () => number = () => performance.now()) {
    const workers = peers?.workers ?? 1;
    this.perSecond = perSecond;
    this.#peers = peers;
    this.#now = peers === undefined ? now : () => peers.now();
    this.#share = Math.ceil(perSecond / workers);
    this.#toTell = Math.max(LEAST_TO_TELL, Math.ceil((perSecond * TOLERANCE) / workers));
  }

  /** Counts requests. @throws ServiceError `rate_limited` where they are too many; those count for nothing */
  count(caller: string, requests = 1): void {
    const now = this.#now();
    if (now >= this.#ends) this.#begin(now);
    const tally = this.#tallyOf(caller);
    if (requests > tally.own || tally.count + requests > this.perSecond)
      throw new ServiceError('rate_limited', undefined, undefined, {
        retryAfterS: this.#waitS(tally, requests),
      });
    tally.count += requests;
    tally.own -= requests;
    if (this.#peers !== undefined) this.#note(tally, requests);
  }

  /** Seconds until these requests pass, if the caller sends none meanwhile. */
  #waitS({ count, isShared }: Tally, requests: number): number {
    const untilPaid = Math.max(1, Math.ceil((count + requests) / this.perSecond) - 1);
    const getsShares = requests > this.#share && this.#isFlood(count, isShared);
    return getsShares ? Math.max(2, untilPaid) : untilPaid;
  }

  /** Whether a caller with this count gets shares in the next second. */
  #isFlood(count: number, isShared: boolean): boolean {
    return count > this.perSecond * (1 + TOLERANCE) || (isShared && count >= this.perSecond);
  }

  /** What another worker has accepted. */
  told({ second, requests }: Accepted): void {
    const now = this.#now();
    if (now >= this.#ends) this.#begin(now);
    for (const [caller, accepted] of requests) {
      if (second === this.#second) this.#add(this.#tallyOf(caller), accepted);
      else if (second === this.#second - 1) this.#addLate(caller, accepted);
    }
  }

  #note(tally: Tally, requests: number): void {
    if (!tally.isNoted) this.#untold.push(tally);
    tally.isNoted = true;
    tally.untold += requests;
    this.#telling ??= setTimeout(this.#tell, TELL_MS).unref();
    if (tally.untold < this.#toTell || this.#isHurried) return;
    this.#isHurried = true;
    setImmediate(this.#tell); // once for all of this turn of the event loop
  }

  readonly #tell = (): void => {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    this.#isHurried = false;
    if (this.#untold.length === 0) return;
    this.#peers?.tell({
      second: this.#second,
      requests: this.#untold.map(({ caller, untold }) => [caller, untold]),
    });
    for (const tally of this.#untold) {
      tally.untold = 0;
      tally.isNoted = false;
    }
    this.#untold = [];
  };

  #add(tally: Tally, accepted: number): void {
    tally.count += accepted;
    if (tally.count > this.perSecond) this.#kept.add(tally);
  }

  /** What was told after the end of its second is debt, as far as it was too much then. */
  #addLate(caller: string, accepted: number): void {
    const last = this.#tallyOf(caller, this.#last);
    const before = Math.max(0, last.count - this.perSecond);
    last.count += accepted;
    const debt = Math.max(0, last.count - this.perSecond) - before;
    if (debt > 0) this.#add(this.#tallyOf(caller), debt);
  }

  #tallyOf(caller: string, tallies = this.#tallies): Tally {
    const known = tallies.get(caller);
    if (known !== undefined) return known;
    const tally = { caller, count: 0, own: this.perSecond, untold: 0, isNoted: false, isShared: false };
    if (tallies.size >= MOST_CALLERS) tallies.delete(tallies.keys().next().value as string);
    tallies.set(caller, tally);
    return tally;
  }

  /** Begins the second of this moment. */
  #begin(now: number): void {
    this.#tell(); // while it is known which second that was
    // Alone, a second begins when it is needed.
    const second = this.#peers === undefined ? this.#second + 1 : Math.floor(now / SECOND_MS);
    this.#ends = this.#peers === undefined ? now + SECOND_MS : (second + 1) * SECOND_MS;
    const passed = second - this.#second;
    this.#second = second;
    this.#last = passed === 1 ? this.#tallies : new Map();
    this.#tallies = new Map();
    const kept = this.#kept;
    this.#kept = new Set();
    for (const { caller, count, isShared } of kept) {
      const debt = Math.max(0, count - this.perSecond * passed);
      const isFlood = this.#isFlood(count, isShared);
      if (debt === 0 && (!isFlood || passed > 1)) continue;
      const own = isFlood ? this.#share : this.perSecond;
      const tally = { caller, count: debt, own, untold: 0, isNoted: false, isShared: isFlood };
      this.#tallies.set(caller, tally);
      this.#kept.add(tally);
    }
  }
}

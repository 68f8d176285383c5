// The bytes of answers that wait for slow readers have one limit in each process. Beyond it the slowest readers are cut, and
// when none is slow enough for that, new large answers are refused.
//
// Only bytes that each reader has for itself are counted: a file is shared by all of its readers, and held with 0.

/** Bytes: some thirty of the largest answers, and little beside the memory of a process. */
const MAX_PENDING_BYTES = 64 * 1024 * 1024;
/** Milliseconds in which no reader is taken for slow. */
const GRACE_MS = 1_000;

/** An answer, or a part of one, that waits for its reader. */
export class PendingAnswer {
  /** That wait now. */
  bytes: number;
  /** Bytes that the reader has taken since `since`. */
  taken = 0;
  readonly since: number;
  /** Ends the connection. */
  readonly cut: () => void;
  /** Called when it is released. */
  readonly onReleased: (() => void) | undefined;

  constructor(bytes: number, since: number, cut: () => void, onReleased: (() => void) | undefined) {
    this.bytes = bytes;
    this.since = since;
    this.cut = cut;
    this.onReleased = onReleased;
  }
}

export class PendingBytes {
  readonly #limit: number;
  readonly #now: () => number;
  /** Answers that are not taken: one of a connection at most. */
  readonly #pending = new Set<PendingAnswer>();
  #bytes = 0;
  #cut = 0;

  /** @param now milliseconds */
  constructor(limit = MAX_PENDING_BYTES, now = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Readers that have not taken all of their answers. */
  get readers(): number {
    return this.#pending.size;
  }

  /** Answers so far whose readers were cut. */
  get cut(): number {
    return this.#cut;
  }

  /** Whether so many bytes more may wait; cuts slow readers until they may. */
  makeRoom(bytes: number): boolean {
    while (this.#bytes + bytes > this.#limit) {
      const slowest = this.#slowest();
      if (slowest === undefined) return false;
      this.#cut++;
      this.release(slowest);
      slowest.cut();
    }
    return true;
  }

  /**
   * Counts bytes that wait from now on, until `release`. Ask `makeRoom` first.
   * @param cut ends the connection; the bytes are released by then @param onReleased called once
   */
  hold(bytes: number, cut: () => void, onReleased?: () => void): PendingAnswer {
    const answer = new PendingAnswer(bytes, this.#now(), cut, onReleased);
    this.#pending.add(answer);
    this.#bytes += bytes;
    return answer;
  }

  /** Whether it is held still. */
  holds(answer: PendingAnswer): boolean {
    return this.#pending.has(answer);
  }

  /** Counts a part of a held answer from now on, in place of the part before. Ask `makeRoom` first. */
  exchange(answer: PendingAnswer, bytes: number): void {
    if (!this.#pending.has(answer)) return;
    this.#bytes += bytes - answer.bytes;
    answer.bytes = bytes;
  }

  /** The reader has taken all of it, or has left; again it does nothing. */
  release(answer: PendingAnswer): void {
    if (!this.#pending.delete(answer)) return;
    this.#bytes -= answer.bytes;
    answer.onReleased?.();
  }

  #slowest(): PendingAnswer | undefined {
    const now = this.#now();
    let slowest: PendingAnswer | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const answer of this.#pending) {
      const ms = now - answer.since;
      if (ms < GRACE_MS || answer.bytes === 0) continue;
      const rate = answer.taken / ms;
      if (rate < least) [slowest, least] = [answer, rate];
    }
    return slowest;
  }
}

// Limits unread bytes of answers. Beyond the limit, the slowest readers are disconnected; if none is slow, new large
// answers are refused. Files count as 0 bytes: their readers share them.

/** About thirty of the largest answers. */
const MAX_PENDING_BYTES = 64 * 1024 * 1024;
/** Milliseconds; no reader counts as slow before. */
const GRACE_MS = 1_000;

export class PendingAnswer {
  bytes: number;
  taken = 0;
  readonly since: number;
  readonly cut: () => void;
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
  readonly #pending = new Set<PendingAnswer>();
  #bytes = 0;
  #cut = 0;

  constructor(limit = MAX_PENDING_BYTES, now = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get readers(): number {
    return this.#pending.size;
  }

  get cut(): number {
    return this.#cut;
  }

  /** Disconnects slow readers. @returns false if `bytes` still don't fit */
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

  /** Call `makeRoom` first. */
  hold(bytes: number, cut: () => void, onReleased?: () => void): PendingAnswer {
    const answer = new PendingAnswer(bytes, this.#now(), cut, onReleased);
    this.#pending.add(answer);
    this.#bytes += bytes;
    return answer;
  }

  holds(answer: PendingAnswer): boolean {
    return this.#pending.has(answer);
  }

  exchange(answer: PendingAnswer, bytes: number): void {
    if (!this.#pending.has(answer)) return;
    this.#bytes += bytes - answer.bytes;
    answer.bytes = bytes;
  }

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

// A stream that one process at a time works at: claimed under an epoch, kept by heartbeats, given up on request or at the
// end. What is done with it meanwhile is the caller's `work`: flushing (stream-flusher.ts), or delivering (src/receivers/).

import type { Logger } from 'pino';
import { type Backoff, backoffMs } from '../backoff.js';
import { type Claim, FencedError, type Ownership } from './ownership.js';

/** The time between a claim and the loss or release of the stream. */
export interface Lease extends Claim {
  /** Aborts when the stream is given up: after what is in flight another process may have it. */
  readonly leaving: AbortSignal;
  /** Aborts when there is to be no more waiting: only what is there already is still done. */
  readonly ending: AbortSignal;
  /** Aborts when what is in flight is to be dropped, too. */
  readonly over: AbortSignal;
}

export interface OwnedStreamSpec {
  readonly ownership: Ownership;
  /** A name that is the same when this process is started again, and no other process's. */
  readonly owner: string;
  /** Milliseconds without a heartbeat after which an owner counts as gone. */
  readonly silentMs: number;
  readonly backoff?: Backoff | undefined;
  readonly log: Logger;
  /** Aborts when this process ends. */
  readonly stop: AbortSignal;
  /** Aborts when it waits no longer for what is in flight. */
  readonly halt: AbortSignal;
  /** Called when the stream is not owned any more. */
  readonly onOver: () => void;
  /** Works at the stream until the lease ends. */
  readonly work: (lease: Lease) => Promise<void>;
}

export class OwnedStream {
  /** Resolves when this process does not own the stream. */
  over: Promise<void> = Promise.resolve();
  readonly #spec: OwnedStreamSpec;
  /** While it is owned: aborted when it is given up. */
  #leaving: AbortController | undefined;
  #heldEpoch: string | undefined;
  /** Leases, or tries to get one, that have failed since `worked`. */
  #failures = 0;
  /** When it may be tried again, of our monotonic clock. */
  #notBefore = 0;

  constructor(spec: OwnedStreamSpec) {
    this.#spec = spec;
  }

  get isOwner(): boolean {
    return this.#leaving !== undefined;
  }

  /** Whether it is owned, and given up. */
  get isLeaving(): boolean {
    return this.#leaving?.signal.aborted ?? false;
  }

  get mayClaim(): boolean {
    return !this.isOwner && performance.now() >= this.#notBefore;
  }

  /** Leaves it to another process, when what is in flight is done. */
  giveUp(): void {
    this.#leaving?.abort();
  }

  /** The work succeeds: the next failure counts as the first. */
  worked(): void {
    this.#failures = 0;
  }

  /** Becomes its owner, where it is free. */
  async claim(): Promise<boolean> {
    const { ownership, owner, silentMs, onOver } = this.#spec;
    try {
      const claim = await ownership.claim(owner, this.#heldEpoch, silentMs);
      if (claim === undefined) return false;
      const leaving = new AbortController();
      this.#leaving = leaving;
      this.over = this.#own(claim, leaving.signal)
        .catch((error) => this.#failed(error))
        .finally(() => {
          this.#leaving = undefined;
          onOver();
        });
      return true;
    } catch (error) {
      this.#failed(error as Error);
      return false;
    }
  }

  #failed(error: Error): void {
    const { halt, log, backoff } = this.#spec;
    if (halt.aborted) return;
    if (error instanceof FencedError) {
      log.warn('another process has taken the stream over; standing by');
    } else {
      this.#failures++;
      log.warn({ err: error, failures: this.#failures }, 'work at the stream failed and will begin again');
      this.#notBefore = performance.now() + backoffMs(this.#failures, backoff);
    }
  }

  async #own(claim: Claim, leaving: AbortSignal): Promise<void> {
    const { log, stop, halt, work } = this.#spec;
    this.#heldEpoch = claim.epoch;
    log.info({ epoch: claim.epoch }, 'owner of the stream');
    const lost = new AbortController();
    const beating = this.#beat(claim.epoch, lost);
    try {
      await work({
        ...claim,
        leaving,
        // Made once and not for each batch: a signal remembers all that were ever derived from it.
        ending: AbortSignal.any([lost.signal, leaving, stop]),
        over: AbortSignal.any([lost.signal, halt]),
      });
      lost.signal.throwIfAborted();
    } catch (error) {
      // What an abort cut short tells less than its reason.
      throw lost.signal.aborted ? lost.signal.reason : error;
    } finally {
      clearInterval(beating);
      lost.abort();
      if (stop.aborted || leaving.aborted) await this.#release(claim.epoch);
    }
  }

  /** Heartbeats, four in the time that an owner may be silent. Aborts `lost` when another process owns the stream. */
  #beat(epoch: string, lost: AbortController): NodeJS.Timeout {
    const beat = async () => {
      try {
        await this.#spec.ownership.beat(epoch);
      } catch (error) {
        if (error instanceof FencedError) lost.abort(error);
      }
    };
    void beat();
    return setInterval(beat, this.#spec.silentMs / 4);
  }

  async #release(epoch: string): Promise<void> {
    try {
      await this.#spec.ownership.release(epoch);
    } catch (error) {
      // Not ours any more, or Redis is away: then another process waits until we count as gone.
      this.#spec.log.debug({ err: error }, 'the stream was not released');
    }
  }
}

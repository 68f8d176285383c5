// Reads one request body, bounded while it arrives, and no longer than the contract allows.
//
// uWebSockets.js hands out chunks that are only valid during the callback, so a body that comes in one
// chunk (nearly all) is used on the spot and the others are copied. Such a body is complete in the same
// event-loop turn as its headers; only what is not is watched. uWebSockets.js itself drops connections that
// send nothing for about 10 s; pausing and resuming a response restarts its clock, which leaves us the time
// to answer 408.

import type { HttpResponse } from 'uWebSockets.js';
import { ServiceError } from '../errors.js';

/** Milliseconds within which a body must be complete. */
const BODY_TIMEOUT_MS = 10_000;
const SWEEP_MS = 500;
/** uWebSockets.js counts in steps of 4 s, so its 10 s may end after 8. */
const KEEP_ALIVE_MS = 5_000;

const EMPTY = Buffer.alloc(0);

/** Called once, with the whole body (valid only during the call), `payload_too_large` or `request_timeout`. */
type Done = (error: ServiceError | undefined, body: Buffer) => void;

/** A body that is being read. */
export class Reading {
  readonly #res: HttpResponse;
  readonly #limit: number;
  readonly #done: Done;
  #parts: Buffer[] | undefined;
  #size = 0;
  #isOver = false;
  /** When it was first, and last, seen unfinished. */
  #since = 0;
  #keptAlive = 0;

  constructor(res: HttpResponse, limit: number, done: Done) {
    this.#res = res;
    this.#limit = limit;
    this.#done = done;
    res.onData((chunk, isLast) => this.#take(chunk, isLast));
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The client has left: nothing is called any more. */
  abandon(): void {
    this.#isOver = true;
  }

  /** Called now and then while the body is not complete. */
  watch(now: number): void {
    if (this.#since === 0) {
      this.#since = now;
      this.#keptAlive = now;
    } else if (now - this.#since >= BODY_TIMEOUT_MS) {
      this.#finish(new ServiceError('request_timeout'), EMPTY);
    } else if (now - this.#keptAlive >= KEEP_ALIVE_MS) {
      this.#keptAlive = now;
      this.#res.pause();
      this.#res.resume();
    }
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.#isOver) return;
    this.#size += chunk.byteLength;
    if (this.#size > this.#limit) {
      this.#finish(new ServiceError('payload_too_large'), EMPTY);
    } else if (isLast && this.#parts === undefined) {
      this.#finish(undefined, Buffer.from(chunk));
    } else {
      this.#parts ??= [];
      this.#parts.push(Buffer.from(new Uint8Array(chunk)));
      if (isLast) this.#finish(undefined, Buffer.concat(this.#parts, this.#size));
    }
  }

  #finish(error: ServiceError | undefined, body: Buffer): void {
    this.#isOver = true;
    this.#done(error, body);
  }
}

export class BodyReader {
  /** Begun in this turn; most are over when it ends. */
  #begun: Reading[] = [];
  readonly #slow = new Set<Reading>();
  #timer: NodeJS.Timeout | undefined;

  read(res: HttpResponse, limit: number, done: Done): Reading {
    const reading = new Reading(res, limit, done);
    if (this.#begun.push(reading) === 1) setImmediate(this.#endOfTurn);
    return reading;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  readonly #endOfTurn = (): void => {
    const begun = this.#begun;
    this.#begun = [];
    for (const reading of begun) {
      if (reading.isOver) continue;
      reading.watch(performance.now());
      this.#slow.add(reading);
      this.#timer ??= setInterval(this.#sweep, SWEEP_MS).unref();
    }
  };

  readonly #sweep = (): void => {
    const now = performance.now();
    for (const reading of this.#slow) {
      if (!reading.isOver) reading.watch(now);
      if (reading.isOver) this.#slow.delete(reading);
    }
    if (this.#slow.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  };
}

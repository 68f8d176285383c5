// Reads one request body, bounded while it arrives, and no longer than the contract allows.
//
// uWebSockets.js hands out chunks that are only valid during the callback, so a body that comes in one
// chunk (nearly all) is used on the spot and the others are copied. uWebSockets.js itself drops connections
// that send nothing for about 10 s; pausing and resuming a response restarts its clock, which leaves us
// the time to answer 408.

import type { HttpResponse } from 'uWebSockets.js';
import { ServiceError } from '../errors.js';

/** Milliseconds within which a body must be complete. */
const BODY_TIMEOUT_MS = 10_000;
const SWEEP_MS = 500;
/** uWebSockets.js counts in steps of 4 s, so its 10 s may end after 8. */
const KEEP_ALIVE_MS = 5_000;

interface Slow {
  readonly res: HttpResponse;
  readonly since: number;
  lastKept: number;
  readonly fail: (error: ServiceError) => void;
}

export class BodyReader {
  readonly #slow = new Set<Slow>();
  #timer: NodeJS.Timeout | undefined;

  /**
   * Calls back once, with the whole body (valid only during the call) or with `payload_too_large` or
   * `request_timeout`. After an abort it never calls; the caller must then call the returned function.
   */
  read(
    res: HttpResponse,
    limit: number,
    done: (error: ServiceError | undefined, body: Buffer) => void,
  ): () => void {
    let parts: Buffer[] | undefined;
    let size = 0;
    let finished = false;
    let slow: Slow | undefined;
    const finish = (error: ServiceError | undefined, body: Buffer) => {
      finished = true;
      release();
      done(error, body);
    };
    const release = () => {
      if (slow !== undefined) this.#slow.delete(slow);
      finished = true;
    };
    res.onData((chunk, isLast) => {
      if (finished) return;
      size += chunk.byteLength;
      if (size > limit) return finish(new ServiceError('payload_too_large'), EMPTY);
      if (isLast && parts === undefined) return finish(undefined, Buffer.from(chunk));
      parts ??= [];
      parts.push(Buffer.from(new Uint8Array(chunk)));
      if (isLast) finish(undefined, Buffer.concat(parts, size));
    });
    if (!finished) {
      const now = performance.now();
      slow = { res, since: now, lastKept: now, fail: (error) => finish(error, EMPTY) };
      this.#slow.add(slow);
      this.#timer ??= setInterval(this.#sweep, SWEEP_MS).unref();
    }
    return release;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    for (const slow of this.#slow) {
      if (now - slow.since >= BODY_TIMEOUT_MS) slow.fail(new ServiceError('request_timeout'));
      else if (now - slow.lastKept >= KEEP_ALIVE_MS) {
        slow.lastKept = now;
        slow.res.pause();
        slow.res.resume();
      }
    }
    if (this.#slow.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  };
}

const EMPTY = Buffer.alloc(0);

// Reads one request body, bounded while it arrives, and no longer than the contract allows.
//
// uWebSockets.js hands out chunks that are only valid during the callback, so a body that comes in one
// chunk (nearly all) is used on the spot and the others are copied into one buffer that grows. Such a body is
// complete in the same event-loop turn as its headers; only what is not is watched. uWebSockets.js itself drops
// connections that send nothing for about 10 s; pausing and resuming a response restarts its clock, which leaves us
// the time to answer 408.
//
// A chunk of any size costs about a microsecond, so a body of a million chunks of one byte would stall every
// other request for a second. Beyond MAX_CHUNKS the connection is closed without an answer: after an answer
// uWebSockets.js would go on with the rest of what it has received (up to 512 KiB) chunk by chunk.

import type { HttpResponse } from 'uWebSockets.js';
import { Buffer } from 'node:buffer'; // the global one is behind a getter
import { overloaded, ServiceError } from '../errors.js';
import type { Head } from './head.js';
import type { Operation } from './operation.js';

const JSON_MEDIA_TYPE = /^application\/json[ \t]*(;|$)/i;
const TEXT_MEDIA_TYPE = /^text\/plain[ \t]*(;|$)/i;
const OTHER_CHARSET = /;[ \t]*charset[ \t]*=[ \t]*(?!"?utf-?8"?[ \t]*(;|$))/i;

/** 1 MiB, the largest body, in TCP segments of 1,448 bytes is 725; in kilobytes, as clients stream it, 1,025. */
const MAX_CHUNKS = 1_200;
/** Bytes; the buffer of a body of several chunks begins with twice its first chunk, and at least this. */
const LEAST_CAPACITY = 512;
/**
 * Bytes that all bodies of several chunks may have together while they arrive. Beyond it the oldest are refused: a client that
 * is at work sends the largest body within a second, and nothing is known yet of who sends it.
 */
const MAX_GATHERED_BYTES = 64 * 1024 * 1024;
/** Milliseconds within which a body must be complete. */
const BODY_TIMEOUT_MS = 10_000;
const SWEEP_MS = 500;
/** uWebSockets.js counts in steps of 4 s, so its 10 s may end after 8. */
const KEEP_ALIVE_MS = 5_000;

/** How reading a body ends: one of these is called, once. */
export interface BodyCallbacks {
  /** @param body the whole of it, valid only during the call */
  bodyComplete(body: Buffer): void;
  /** The rest of it is not read. @param error `payload_too_large`, `request_timeout` or `overloaded` */
  bodyUnread(error: ServiceError): void;
  /** It came in too many chunks: the connection must be closed now. */
  tooManyChunks(): void;
}

/** Bodies of several chunks that are being read, the oldest first. */
class Gathering {
  /** One of a connection at most, and so many that they have MAX_GATHERED_BYTES in all. */
  readonly #readings = new Set<Reading>();
  #bytes = 0;

  grow(reading: Reading, bytes: number): void {
    this.#readings.add(reading);
    this.#bytes += bytes;
    for (const oldest of this.#readings) {
      if (this.#bytes <= MAX_GATHERED_BYTES) return;
      if (oldest !== reading) oldest.refuse(overloaded('bodies'));
    }
  }

  end(reading: Reading, bytes: number): void {
    if (this.#readings.delete(reading)) this.#bytes -= bytes;
  }
}

/** A body that is being read. */
export class Reading {
  readonly #res: HttpResponse;
  readonly #limit: number;
  readonly #callbacks: BodyCallbacks;
  readonly #timeoutMs: number;
  readonly #gathering: Gathering;
  /** What has come of a body of several chunks: the first `#size` bytes of it. */
  #gathered: Buffer | undefined;
  #size = 0;
  #chunks = 0;
  #isOver = false;
  /** When it was first, and last, seen unfinished. */
  #since = 0;
  #keptAlive = 0;

  constructor(
    res: HttpResponse,
    limit: number,
    callbacks: BodyCallbacks,
    timeoutMs = BODY_TIMEOUT_MS,
    gathering = new Gathering(),
  ) {
    this.#res = res;
    this.#gathering = gathering;
    this.#limit = limit;
    this.#callbacks = callbacks;
    this.#timeoutMs = timeoutMs;
    res.onData((chunk, isLast) => this.#take(chunk, isLast));
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The client has left: nothing is called any more. */
  abandon(): void {
    this.#end();
  }

  /** Called now and then while the body is not complete. */
  watch(now: number): void {
    if (this.#since === 0) {
      this.#since = now;
      this.#keptAlive = now;
    } else if (now - this.#since >= this.#timeoutMs) {
      this.refuse(new ServiceError('request_timeout'));
    } else if (now - this.#keptAlive >= KEEP_ALIVE_MS) {
      this.#keptAlive = now;
      this.#res.pause();
      this.#res.resume();
    }
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.#isOver) return;
    const start = this.#size;
    this.#size += chunk.byteLength;
    if (this.#size > this.#limit) {
      this.refuse(tooLarge(this.#limit));
    } else if (isLast && this.#gathered === undefined) {
      this.#complete(Buffer.from(chunk));
    } else if (++this.#chunks > MAX_CHUNKS) {
      this.#end();
      this.#callbacks.tooManyChunks();
    } else {
      const gathered = this.#buffer();
      gathered.set(new Uint8Array(chunk), start);
      if (isLast) this.#complete(gathered.subarray(0, this.#size));
    }
  }

  /** The buffer, with space for `#size` bytes; at least doubled where it has to grow, so that a byte is rarely copied. */
  #buffer(): Buffer {
    const before = this.#gathered;
    if (before !== undefined && before.length >= this.#size) return before;
    const capacity = Math.min(Math.max(2 * this.#size, LEAST_CAPACITY), this.#limit);
    const grown = Buffer.allocUnsafeSlow(capacity);
    if (before !== undefined) grown.set(before);
    this.#gathered = grown;
    this.#gathering.grow(this, capacity - (before?.length ?? 0));
    return grown;
  }

  #complete(body: Buffer): void {
    this.#end();
    this.#callbacks.bodyComplete(body);
  }

  /** The rest of it is not read. */
  refuse(error: ServiceError): void {
    this.#end();
    this.#callbacks.bodyUnread(error);
  }

  #end(): void {
    this.#isOver = true;
    if (this.#gathered !== undefined) this.#gathering.end(this, this.#gathered.length);
    this.#gathered = undefined;
  }
}

/** @throws ServiceError `unsupported_media_type` or `payload_too_large`, where the headers say it already */
export function admitBody(
  { takesText, maxBody }: Operation,
  { contentType, contentLength, contentEncoding }: Head,
): void {
  if (contentEncoding !== '')
    throw new ServiceError(
      'unsupported_media_type',
      'A body with a Content-Encoding is not read: send it uncompressed, without that header.',
    );
  if (contentType !== '' && !JSON_MEDIA_TYPE.test(contentType)) {
    if (!takesText || !TEXT_MEDIA_TYPE.test(contentType)) throw new ServiceError('unsupported_media_type');
  }
  if (OTHER_CHARSET.test(contentType))
    throw new ServiceError(
      'unsupported_media_type',
      'A body in another charset than UTF-8 is not read: send it as UTF-8.',
    );
  if (Number(contentLength) > maxBody) throw tooLarge(maxBody);
}

function tooLarge(maxBody: number): ServiceError {
  return new ServiceError('payload_too_large', `The body is larger than ${maxBody} bytes.`);
}

export class BodyReader {
  /** Begun in this turn; most are over when it ends. */
  #begun: Reading[] = [];
  /** One of a connection at most, until its time is over. */
  readonly #slow = new Set<Reading>();
  readonly #gathering = new Gathering();
  #timer: NodeJS.Timeout | undefined;
  readonly #timeoutMs: number | undefined;

  /** @param timeoutMs milliseconds within which a body must be complete; BODY_TIMEOUT_MS by default */
  constructor(timeoutMs?: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** @param limit bytes; more is `payload_too_large` */
  read(res: HttpResponse, limit: number, callbacks: BodyCallbacks): Reading {
    const reading = new Reading(res, limit, callbacks, this.#timeoutMs, this.#gathering);
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

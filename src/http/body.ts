// Reads request bodies, with limits of size and time.
// uWebSockets.js drops connections that send nothing for about 10 s. Pausing and resuming a response restarts that
// clock, which leaves time to answer 408.
// A body in too many chunks (about 1 µs each) ends with its connection, without an answer. Otherwise uWebSockets.js would
// process the rest of its buffer.

import type { HttpResponse } from 'uWebSockets.js';
import { Buffer } from 'node:buffer'; // the global is a slow getter
import { overloaded, ServiceError } from '../errors.js';
import type { Head } from './head.js';
import type { Operation } from './operation.js';

const JSON_MEDIA_TYPE = /^application\/json[ \t]*(;|$)/i;
const TEXT_MEDIA_TYPE = /^text\/plain[ \t]*(;|$)/i;
const OTHER_CHARSET = /;[ \t]*charset[ \t]*=[ \t]*(?!"?utf-?8"?[ \t]*(;|$))/i;

/** A small body may come in smaller chunks. */
const LEAST_MAX_CHUNKS = 1_200;
/** Least bytes per chunk of a large body: a TCP segment has 536 unless the peers agree on more. */
const SMALL_CHUNK = 512;
const LEAST_CAPACITY = 512;
/** Limit of all unfinished bodies together. Beyond it, the oldest ones are refused. */
const MAX_GATHERED_BYTES = 64 * 1024 * 1024;
const BODY_TIMEOUT_MS = 10_000;
/**
 * uWebSockets.js reads a chunk extension like `;a` as digits of the chunk's size, and then waits for more than there is:
 * what it takes for the chunk ends with the end of the body.
 */
const LAST_CHUNK = '\r\n0\r\n\r\n';
const SWEEP_MS = 500;
/** uWebSockets.js counts in steps of 4 s, so its time-out of 10 s may come after 8. */
const KEEP_ALIVE_MS = 5_000;

/** At most one of these is called for each body: none if the caller ends the reading. */
export interface BodyCallbacks {
  readonly head: Pick<Head, 'isChunked'>;
  bodyComplete(body: Buffer): void;
  bodyUnread(error: ServiceError): void;
  tooManyChunks(): void;
}

export class Reading {
  #gathered: Buffer | undefined;
  #size = 0;
  #chunks = 0;
  #isOver = false;
  #since = 0;
  #keptAlive = 0;

  constructor(
    private readonly res: HttpResponse,
    private readonly limit: number,
    private readonly callbacks: BodyCallbacks,
    private readonly reader: BodyReader,
  ) {
    res.onData((chunk, isLast) => this.#take(chunk, isLast));
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  watch(now: number): void {
    if (this.#since === 0) {
      this.#since = now;
      this.#keptAlive = now;
    } else if (now - this.#since >= this.reader.timeoutMs) {
      this.refuse(new ServiceError('request_timeout'));
    } else if (now - this.#keptAlive >= KEEP_ALIVE_MS) {
      this.#keptAlive = now;
      this.res.pause();
      this.res.resume();
    }
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    if (this.#isOver) return;
    const start = this.#size;
    this.#size += chunk.byteLength;
    if (this.#size > this.limit) {
      this.refuse(tooLarge(this.limit));
    } else if (isLast && this.#gathered === undefined) {
      this.#complete(Buffer.from(chunk));
    } else if (++this.#chunks > Math.max(LEAST_MAX_CHUNKS, this.limit / SMALL_CHUNK)) {
      this.end();
      this.callbacks.tooManyChunks();
    } else {
      const gathered = this.#buffer();
      gathered.set(new Uint8Array(chunk), start);
      if (isLast) this.#complete(gathered.subarray(0, this.#size));
      else if (this.callbacks.head.isChunked && this.#endsWithLastChunk(gathered))
        this.refuse(hasExtension());
    }
  }

  #endsWithLastChunk(gathered: Buffer): boolean {
    return (
      gathered.toString('latin1', Math.max(this.#size - LAST_CHUNK.length, 0), this.#size) === LAST_CHUNK
    );
  }

  #buffer(): Buffer {
    const before = this.#gathered;
    if (before !== undefined && before.length >= this.#size) return before;
    const capacity = Math.min(Math.max(2 * this.#size, LEAST_CAPACITY), this.limit);
    const grown = Buffer.allocUnsafeSlow(capacity);
    if (before !== undefined) grown.set(before);
    this.#gathered = grown;
    this.reader.grow(this, capacity - (before?.length ?? 0));
    return grown;
  }

  #complete(body: Buffer): void {
    this.end();
    this.callbacks.bodyComplete(body);
  }

  refuse(error: ServiceError): void {
    this.end();
    this.callbacks.bodyUnread(error);
  }

  end(): void {
    this.#isOver = true;
    if (this.#gathered !== undefined) this.reader.release(this, this.#gathered.length);
    this.#gathered = undefined;
  }
}

export function admitBody(
  { takesText, maxBody }: Operation,
  { contentType, contentLength, contentEncoding }: Head,
): void {
  if (contentEncoding !== '')
    throw new ServiceError(
      'unsupported_media_type',
      'A body with a Content-Encoding is not read: send it uncompressed, without that header.',
    );
  if (contentType !== '' && contentType !== 'application/json') admitMediaType(contentType, takesText);
  if (Number(contentLength) > maxBody) throw tooLarge(maxBody);
}

function admitMediaType(contentType: string, takesText: boolean | undefined): void {
  if (!JSON_MEDIA_TYPE.test(contentType)) {
    if (!takesText || !TEXT_MEDIA_TYPE.test(contentType)) throw new ServiceError('unsupported_media_type');
  }
  if (OTHER_CHARSET.test(contentType))
    throw new ServiceError(
      'unsupported_media_type',
      'A body in another charset than UTF-8 is not read: send it as UTF-8.',
    );
}

function tooLarge(maxBody: number): ServiceError {
  return new ServiceError('payload_too_large', `The body is larger than ${maxBody} bytes.`);
}

function hasExtension(): ServiceError {
  return new ServiceError(
    'invalid_request',
    'A body with chunk extensions is not read: send it without them.',
  );
}

export class BodyReader {
  #begun: Reading[] = [];
  readonly #slow = new Set<Reading>();
  /** In the order of their first buffer. */
  readonly #gathering = new Set<Reading>();
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(readonly timeoutMs = BODY_TIMEOUT_MS) {}

  read(res: HttpResponse, limit: number, callbacks: BodyCallbacks): Reading {
    const reading = new Reading(res, limit, callbacks, this);
    if (this.#begun.push(reading) === 1) setImmediate(this.#endOfTick);
    return reading;
  }

  grow(reading: Reading, bytes: number): void {
    this.#gathering.add(reading);
    this.#bytes += bytes;
    for (const oldest of this.#gathering) {
      if (this.#bytes <= MAX_GATHERED_BYTES) return;
      if (oldest !== reading) oldest.refuse(overloaded('bodies'));
    }
  }

  release(reading: Reading, bytes: number): void {
    if (this.#gathering.delete(reading)) this.#bytes -= bytes;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  readonly #endOfTick = (): void => {
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

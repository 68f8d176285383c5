// One request and its one answer. What uWebSockets.js asks of a handler is done here: onAborted before anything
// asynchronous, one answer, inside cork, never after an abort. An operation sees it as its Request.
//
// It is one object, with few functions of its own and no promise: there is one for every visit.

import type { HttpResponse } from 'uWebSockets.js';
import type { Logger } from 'pino';
import { type ErrorCode, ServiceError } from '../errors.js';
import type { Gate } from '../identity/guests.js';
import { parseJson } from '../validation/json.js';
import type { Access, Caller } from './access.js';
import type { BodyReader, Outcome, Reading } from './body.js';
import { writeCors } from './cors.js';
import { errorAnswer } from './error-answer.js';
import type { Head } from './head.js';
import type { Answer, Operation, Request } from './operation.js';
import { parseQuery, type Query } from './query.js';
import type { RateLimit } from './rate-limit.js';

/** What all exchanges of a server share. */
export interface ExchangeHost {
  readonly access: Access;
  readonly bodies: BodyReader;
  readonly log: Logger;
  /** Whether answers close their connections. */
  readonly closesConnections: boolean;
  /** STRANGER_NEW_VISITORS; undefined where they are not bounded. */
  readonly newVisitors: RateLimit | undefined;
  /** Told of every answer that tells an error. */
  onRefusal(code: ErrorCode): void;
  /** Told when it was answered or aborted. */
  onEnd(): void;
  /** Told when an answer is larger than what its reader takes at once, and again when it was taken or the reader left. */
  onReader(change: 1 | -1): void;
}

const JSON_MEDIA_TYPE = /^application\/json[ \t]*(;|$)/i;
const TEXT_MEDIA_TYPE = /^text\/plain[ \t]*(;|$)/i;
/** Up to here a body that is not wanted is read and dropped; a longer one ends with the connection. */
const DRAIN_BYTES = 1024 * 1024;
/** From here on an answer may be more than its reader takes at once. */
const SHARED_BYTES = 64 * 1024;
const EMPTY = Buffer.alloc(0);

// What all answers say goes along with the type: a call of writeHeader takes 0.17 us, whatever its length, and
// uWebSockets.js sends a value as it is given. (So nothing that a caller sent may become one unchecked.) The
// request's id comes last.
const ANY_TYPE = '\r\nx-content-type-options: nosniff\r\nx-request-id: ';
const JSON_TYPE = `application/json\r\ncache-control: no-store${ANY_TYPE}`;

export class Exchange implements Request, Outcome {
  readonly head: Head;
  /** Undecoded, without the question mark. */
  readonly rawQuery: string;
  readonly parameter: string;
  // Who calls, and for whom it counts in RATE_LIMIT: set once that is known.
  caller!: Caller;
  payer = '';
  /** Whether the limits of strangers hold for the caller. */
  isStranger = false;
  body: unknown = undefined;
  bytes: Buffer | undefined = undefined;
  /** For 405: the methods that the path takes. */
  allow: string | undefined = undefined;
  answerError: Operation['answerError'] = undefined;
  /** HEAD: the answer tells the length of its body but must not have one. */
  isHead = false;
  /** Whether the answer closes the connection. */
  closes = false;
  readonly #host: ExchangeHost;
  readonly #res: HttpResponse;
  readonly #id: string;
  /** When it came, of our monotonic clock. */
  readonly #began: number;
  readonly #onAnswer: (status: number, ms: number) => void;
  #operation: Operation | undefined = undefined;
  #reading: Reading | undefined = undefined;
  /** Called with the body's size known, before the operation is asked. */
  #onBody: ((exchange: Exchange) => void) | undefined = undefined;
  /** Answered or aborted: `res` may not be touched any more. */
  #ended = false;
  /** Whether an answer was given that its reader has not taken yet. */
  #isBeingRead = false;
  /** Whether a body is to come that may have no end, or a far one: an answer given without reading it closes the connection. */
  #isEndless: boolean;

  constructor(
    host: ExchangeHost,
    res: HttpResponse,
    head: Head,
    rawQuery: string,
    parameter: string,
    id: string,
    began: number,
    onAnswer: (status: number, ms: number) => void,
  ) {
    this.head = head;
    this.rawQuery = rawQuery;
    this.parameter = parameter;
    this.#host = host;
    this.#res = res;
    this.#id = id;
    this.#began = began;
    this.#onAnswer = onAnswer;
    this.#isEndless = head.isChunked || Number(head.contentLength) > DRAIN_BYTES;
    res.onAborted(() => {
      this.#reading?.abandon();
      if (this.#isBeingRead) this.#wasRead();
      this.#end();
    });
  }

  get gate(): Gate | undefined {
    const { newVisitors } = this.#host;
    if (newVisitors === undefined || !this.isStranger) return undefined;
    return new AddressGate(newVisitors, this.payer);
  }

  query(): Query {
    return parseQuery(this.rawQuery);
  }

  header(name: string): string {
    return this.head.header(name) ?? '';
  }

  hasEmptyHeader(name: string): boolean {
    return this.head.header(name) === '';
  }

  /**
   * Reads the body, where the operation takes one, and lets the operation answer.
   * @param onBody called before that with the parsed body, and may throw
   * @throws ServiceError where the headers say already that the body will not do
   */
  run(operation: Operation, onBody?: (exchange: Exchange) => void): void {
    this.#operation = operation;
    if (operation.maxBody === 0) {
      this.#handle(operation);
      return;
    }
    const { contentType, contentLength } = this.head;
    if (contentType !== '' && !JSON_MEDIA_TYPE.test(contentType)) {
      if (!operation.takesText || !TEXT_MEDIA_TYPE.test(contentType))
        throw new ServiceError('unsupported_media_type');
    }
    const announced = Number(contentLength);
    if (announced > operation.maxBody) throw new ServiceError('payload_too_large');
    this.#onBody = onBody;
    const reading = this.#host.bodies.read(this.#res, operation.maxBody, this);
    this.#reading = reading;
    if (contentLength === '' || announced > 0) return;
    // uWebSockets.js forgets to say that an empty body is complete where its head came in pieces, and does not
    // understand what comes after it on that connection.
    setImmediate(() => {
      if (reading.isOver) return;
      reading.abandon();
      this.closes = true;
      this.done(undefined, EMPTY);
    });
  }

  /** The body is there; its bytes are lent for the time of this call. */
  done(error: ServiceError | undefined, bytes: Buffer): void {
    try {
      if (error !== undefined) {
        this.closes = true;
        throw error;
      }
      this.#isEndless = false;
      const operation = this.#operation as Operation;
      if (operation.wantsBytes) this.bytes = Buffer.from(bytes);
      else this.body = named(parseJson(bytes), this.caller);
      this.#onBody?.(this);
      this.#handle(operation);
    } catch (failure) {
      this.fail(failure as Error);
    }
  }

  /** The body came in too many chunks. */
  shredded(): void {
    this.#host.onRefusal('payload_too_large');
    this.#res.close();
  }

  #handle(operation: Operation): void {
    const handled = operation.handle(this);
    // Parsed, a body may take twenty times its bytes: it is not kept while Redis is asked.
    this.body = undefined;
    if (handled instanceof Promise)
      handled.then(
        (answer) => this.answer(answer),
        (error) => this.fail(error),
      );
    else if (handled !== undefined) this.answer(handled);
  }

  fail(error: Error): void {
    const known = error instanceof ServiceError ? error : new ServiceError('internal');
    if (known.code === 'internal')
      this.#host.log.error({ err: error, requestId: this.#id }, 'request failed');
    if (this.#ended) return;
    this.#host.onRefusal(known.code);
    this.answer(this.answerError?.(known, this) ?? errorAnswer(known, this.allow));
  }

  answer(answer: string | Answer): void {
    if (this.#ended) return;
    const ms = performance.now() - this.#began;
    if (typeof answer === 'string') {
      this.#onAnswer(200, ms);
      this.#res.cork(() => {
        this.#res.writeHeader('content-type', JSON_TYPE + this.#id);
        this.#finish(answer);
      });
    } else {
      const { status, type, headers, body } = answer;
      this.#onAnswer(status === undefined ? 200 : Number.parseInt(status, 10), ms);
      this.#res.cork(() => {
        const res = this.#res;
        if (status !== undefined) res.writeStatus(status);
        res.writeHeader('content-type', (type === undefined ? JSON_TYPE : type + ANY_TYPE) + this.#id);
        for (const name in headers) res.writeHeader(name, headers[name] as string);
        this.#finish(body);
      });
    }
    this.#end();
  }

  #finish(body: string | Uint8Array | undefined): void {
    const res = this.#res;
    const { access, closesConnections } = this.#host;
    writeCors(access, res, this.head.origin);
    const mustClose = this.closes || this.#isEndless;
    const closes = mustClose || closesConnections;
    if (body !== undefined && !this.isHead && (mustClose || body.length < SHARED_BYTES)) {
      res.end(body, closes); // which says so, too
      return;
    }
    if (closes) res.writeHeader('connection', 'close');
    if (body !== undefined && this.isHead) res.writeHeader('content-length', `${Buffer.byteLength(body)}`);
    // With any argument, endWithoutBody of uWebSockets.js does not answer.
    if (body === undefined || this.isHead) res.endWithoutBody();
    else this.#endShared(typeof body === 'string' ? Buffer.from(body) : body);
  }

  /**
   * uWebSockets.js would copy what a slow reader has not taken yet; this way all readers of a file share it, and it is
   * known when they have it. (One that is told to close its connection does so by itself.)
   */
  #endShared(body: Uint8Array): void {
    const res = this.#res;
    const [isTaken] = res.tryEnd(body, body.length);
    if (isTaken) return;
    this.#isBeingRead = true;
    this.#host.onReader(1);
    res.onWritable((sent) => {
      const [isAllTaken, isDone] = res.tryEnd(body.subarray(sent), body.length);
      if (isDone) this.#wasRead();
      return isAllTaken;
    });
  }

  #wasRead(): void {
    this.#isBeingRead = false;
    this.#host.onReader(-1);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#host.onEnd();
  }
}

/** A storefront's customer who is logged in need not be named: the signature does. */
function named(body: unknown, { customerId }: Caller): unknown {
  if (customerId === null || typeof body !== 'object' || body === null || 'identity' in body) return body;
  return { ...body, identity: { customerId } };
}

/** The gate of an address. */
class AddressGate implements Gate {
  readonly #limit: RateLimit;
  readonly #address: string;

  constructor(limit: RateLimit, address: string) {
    this.#limit = limit;
    this.#address = address;
  }

  take(): number | undefined {
    return this.#limit.take(this.#address);
  }

  giveBack(taken: number): void {
    this.#limit.giveBack(this.#address, taken);
  }

  refusal(): ServiceError {
    return this.#limit.refusal();
  }
}

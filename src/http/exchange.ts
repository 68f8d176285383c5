// One request and its one answer. What uWebSockets.js asks of a handler is done here: onAborted before anything
// asynchronous, one answer, inside cork, never after an abort. An operation sees it as its Request.
//
// It is one object, with few functions of its own and no promise: there is one for every visit. What is refused at once is
// written at once, since the next request on that connection may be there already. All other answers of a turn of the event
// loop are written together (src/turn.ts).

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { performance } from 'node:perf_hooks'; // the global one is behind a getter
import type { Logger } from 'pino';
import { type ErrorCode, ServiceError } from '../errors.js';
import { TurnQueue } from '../turn.js';
import { parseJson } from '../validation/json.js';
import type { Access, Caller } from './access.js';
import { admitBody, type BodyCallbacks, type BodyReader, type Reading } from './body.js';
import { errorAnswer } from './error-answer.js';
import { type Head, readHead } from './head.js';
import type { Turn } from './load-shedding.js';
import type { OpenCount } from './open-count.js';
import type { Answer, Operation, Request } from './operation.js';
import { parseQuery, type Query } from './query.js';
import type { RateLimits } from './rate-limits.js';
import { type Recipient, writeAnswer } from './write-answer.js';

export interface ExchangeOptions {
  readonly access: Access;
  readonly limits: RateLimits;
  readonly log: Logger;
  /** Asked once for each operation, and for what is none: what is told the status of every answer, and its milliseconds. */
  readonly onAnswers: (operation: Operation | undefined) => (status: number, ms: number) => void;
  /** Told of every answer that tells an error. */
  readonly onRefusal: (code: ErrorCode) => void;
  /** See Turn. */
  readonly longestTurnMs: number;
  /** See callerAddress. */
  readonly trustedProxies: number;
  /** See BodyReader. */
  readonly bodyTimeoutMs?: number | undefined;
  /** Milliseconds that closing waits for readers of large answers; READ_MS by default. */
  readonly readMs?: number;
}

/** What all exchanges of a server share. */
export interface ExchangeHost {
  readonly options: ExchangeOptions;
  readonly turn: Turn;
  readonly bodies: BodyReader;
  /** Requests that were neither answered nor aborted. */
  readonly requests: OpenCount;
  /** Clients that have not taken all of their answers yet. */
  readonly readers: OpenCount;
  /** Whether answers close their connections. */
  readonly closesConnections: boolean;
  requestId(head: Head): string;
}

/** What all requests for one path and method share. */
export interface Route {
  readonly onAnswer: (status: number, ms: number) => void;
  /** Absent for paths and methods that no operation has. */
  readonly operation?: Operation;
  readonly hasParameter?: boolean;
  /** Called with the parsed body before the operation is. @throws ServiceError */
  readonly limitBody?: ((exchange: Exchange) => void) | undefined;
}

/** Up to here a body that is not wanted is read and dropped; a longer one ends with the connection. */
const DRAIN_BYTES = 1024 * 1024;
const EMPTY = Buffer.alloc(0);

export class Exchange implements Request, BodyCallbacks, Recipient {
  static readonly #answered = new TurnQueue<Exchange>('answer', (exchanges) => {
    const now = performance.now();
    for (const exchange of exchanges) exchange.#account(now);
    for (const exchange of exchanges) exchange.#write();
  });
  // `cork` calls its function at once: one for all answers, which is told what to write, instead of one made for each.
  static #corked: Exchange;
  static readonly #writeCorked = (): void => {
    const exchange = Exchange.#corked;
    writeAnswer(exchange.#res, exchange.#host.options.access, exchange.#answer as string | Answer, exchange);
  };
  readonly head: Head;
  /** Undecoded, without the question mark. */
  readonly rawQuery: string;
  readonly parameter: string;
  /** Of the request, as its answer and our log name it. */
  readonly id: string;
  // Who calls, and the caller's name in RATE_LIMIT: set once that is known.
  caller!: Caller;
  rateLimitKey = '';
  body: unknown = undefined;
  bytes: Buffer | undefined = undefined;
  /** For 405: the methods that the path takes. */
  allow: string | undefined = undefined;
  answerError: Operation['answerError'] = undefined;
  isHead = false;
  /** Whether it is answered although the rest of it was not read. */
  isCut = false;
  readonly #host: ExchangeHost;
  readonly #res: HttpResponse;
  /** When it came, of our monotonic clock. */
  readonly #began: number;
  readonly #route: Route;
  #reading: Reading | undefined = undefined;
  /** Whether the operation has the request, and is to answer later. */
  #isUnderWay = false;
  #answer: string | Answer | undefined = undefined;
  /** The answer is written, or the request aborted: `res` may not be touched any more. */
  #ended = false;
  /** Whether an answer was given that its reader has not taken yet. */
  #isBeingRead = false;
  /** Whether a body is to come that may have no end, or a far one: an answer given without reading it closes the connection. */
  #isEndless: boolean;

  constructor(host: ExchangeHost, route: Route, res: HttpResponse, req: HttpRequest) {
    host.requests.change(1);
    const head = readHead(req, route.operation?.headers);
    this.#host = host;
    this.#route = route;
    this.#res = res;
    this.head = head;
    this.rawQuery = req.getQuery() ?? '';
    this.parameter = route.hasParameter ? (req.getParameter(0) ?? '') : '';
    this.id = host.requestId(head);
    this.#began = host.turn.began;
    this.#isEndless = head.isChunked || Number(head.contentLength) > DRAIN_BYTES;
    res.onAborted(() => {
      this.#reading?.abandon();
      if (this.#isBeingRead) this.onReading(false);
      this.#end();
    });
  }

  get userAgent(): string {
    return this.head.userAgent;
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
   * @throws ServiceError where the headers say already that the body will not do
   */
  run(operation: Operation): void {
    if (operation.maxBody === 0) {
      this.#handle(operation);
      return;
    }
    admitBody(operation, this.head);
    const reading = this.#host.bodies.read(this.#res, operation.maxBody, this);
    this.#reading = reading;
    const { contentLength } = this.head;
    if (contentLength === '' || Number(contentLength) > 0) return;
    // uWebSockets.js forgets to say that an empty body is complete where its head came in pieces, and does not
    // understand what comes after it on that connection.
    setImmediate(() => {
      if (reading.isOver) return;
      reading.abandon();
      this.isCut = true;
      this.done(undefined, EMPTY);
    });
  }

  /** @param bytes valid only during this call */
  done(error: ServiceError | undefined, bytes: Buffer): void {
    if (error !== undefined) {
      this.isCut = true;
      this.fail(error);
      return;
    }
    this.#isEndless = false;
    if (!this.head.isChunked) {
      this.#take(bytes);
      return;
    }
    // uWebSockets.js takes trailers for the next request, and aborts this one with a 505: by the end of this turn, where
    // they came with the last chunk.
    const kept = Buffer.from(bytes);
    setImmediate(() => {
      if (!this.#ended) this.#take(kept);
    });
  }

  #take(bytes: Buffer): void {
    try {
      const operation = this.#route.operation as Operation;
      if (operation.wantsBytes) this.bytes = Buffer.from(bytes);
      else this.body = named(parseJson(bytes), this.caller);
      this.#route.limitBody?.(this);
      this.#handle(operation);
    } catch (failure) {
      this.fail(failure as Error);
    }
  }

  /** The body came in too many chunks. */
  shredded(): void {
    this.#host.options.onRefusal('payload_too_large');
    this.#res.close();
  }

  #handle(operation: Operation): void {
    const handled = operation.handle(this);
    // Parsed, a body may take twenty times its bytes: it is not kept while Redis is asked.
    this.body = undefined;
    if (handled !== undefined && !(handled instanceof Promise)) {
      this.answer(handled);
      return;
    }
    this.#isUnderWay = true;
    handled?.then(
      (answer) => this.answer(answer),
      (error) => this.fail(error),
    );
  }

  fail(error: Error): void {
    const known = error instanceof ServiceError ? error : new ServiceError('internal');
    if (known.code === 'internal')
      this.#host.options.log.error({ err: error, requestId: this.id }, 'request failed');
    if (this.#ended || this.#answer !== undefined) return;
    this.#host.options.onRefusal(known.code);
    this.answer(this.answerError?.(known, this) ?? errorAnswer(known, this.allow));
  }

  answer(answer: string | Answer): void {
    if (this.#ended || this.#answer !== undefined) return;
    this.#answer = answer;
    if (this.#isUnderWay) {
      Exchange.#answered.push(this);
      return;
    }
    this.#account(performance.now());
    this.#write();
  }

  #account(now: number): void {
    if (this.#ended) return;
    const answer = this.#answer as string | Answer;
    const status = typeof answer === 'string' ? undefined : answer.status;
    this.#route.onAnswer(status === undefined ? 200 : Number.parseInt(status, 10), now - this.#began);
  }

  #write(): void {
    if (this.#ended) return;
    Exchange.#corked = this;
    this.#res.cork(Exchange.#writeCorked);
    this.#end();
  }

  get leavesRest(): boolean {
    return this.isCut || this.#isEndless;
  }

  get closes(): boolean {
    return this.leavesRest || this.#host.closesConnections;
  }

  onReading(isReading: boolean): void {
    this.#isBeingRead = isReading;
    this.#host.readers.change(isReading ? 1 : -1);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#host.requests.change(-1);
  }
}

/** A storefront's customer who is logged in need not be named: the signature does. */
function named(body: unknown, { customerId }: Caller): unknown {
  if (customerId === null || typeof body !== 'object' || body === null || 'identity' in body) return body;
  return { ...body, identity: { customerId } };
}

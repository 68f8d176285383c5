// One request and its one answer. Everything that uWebSockets.js asks of a handler is done here, and
// only here: onAborted before anything asynchronous, fields copied before the callback returns, one answer,
// inside cork, never after an abort.
//
//   arrived ──▶ access ──▶ media type, size ──▶ body ──▶ operation ──▶ answered
//      └──────────┴───────────────┴──────────────┴──────────┴── ServiceError ──▶ answered with the contract's error
//   aborted (the client left): whatever is under way finishes, and nothing is answered

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { isUtf8 } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { type ErrorCode, ServiceError } from '../errors.js';
import { type Access, type Caller, isGuarded } from './access.js';
import { callerAddress } from './address.js';
import { BodyReader, type Reading } from './body.js';
import { readOrigin, readRefererOrigin, writeCors, writePreflight } from './cors.js';
import { errorAnswer } from './error-answer.js';
import { type Answer, type Operation, Request } from './operation.js';
import type { RateLimit } from './rate-limit.js';

export interface ExchangeOptions {
  readonly access: Access;
  readonly log: Logger;
  /** Asked once for each operation, and for what is none: who is told the status of every answer. */
  readonly onAnswers: (operation: Operation | undefined) => (status: number) => void;
  /** Told of every answer that tells an error. */
  readonly onRefusal: (code: ErrorCode) => void;
  /** Absent where callers may send as much as they like. */
  readonly rateLimit: RateLimit | undefined;
  /** Milliseconds that a turn of the event loop may have taken when a crowd is still taken in. */
  readonly longestTurnMs: number;
  /** See callerAddress. */
  readonly trustedProxies: number;
}

const MEDIA_TYPE = /^(application\/json|text\/plain)[ \t]*(;|$)/i;
const SANE_REQUEST_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;
/** A client that is far beyond the limit is not listened to any longer; up to here the rest is read and dropped. */
const DRAIN_BYTES = 1024 * 1024;
/** Requests of one turn of the event loop that are always taken. */
const CROWD = 256;
const EMPTY = Buffer.alloc(0);

export class Exchanges {
  readonly #options: ExchangeOptions;
  readonly #bodies = new BodyReader();
  readonly #idPrefix = `${randomBytes(6).toString('base64url')}-`;
  #ids = 0;
  #open = 0;
  /** Requests that came in this turn of the event loop, and when the first of them did. */
  #turnCount = 0;
  #turnBegan = 0;
  #draining = false;
  #onDrained: (() => void) | undefined;

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** Requests that have not been answered yet. */
  get open(): number {
    return this.#open;
  }

  /** From now on answers close their connections; resolves when the last request is answered. */
  async drain(): Promise<void> {
    this.#draining = true;
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve;
      });
    }
    this.#bodies.close();
  }

  /** A handler for uWebSockets.js. */
  handler(operation: Operation): (res: HttpResponse, req: HttpRequest) => void {
    const onAnswer = this.#options.onAnswers(operation);
    // Whoever watches or opens the service is not counted.
    const guarded = isGuarded(operation.subject);
    const rateLimit = guarded ? this.#options.rateLimit : undefined;
    return (res, req) => {
      const exchange = this.#begin(res, req, onAnswer);
      try {
        if (guarded) this.#admit();
        const query = req.getQuery() ?? '';
        const caller =
          rateLimit === undefined
            ? this.#identify(exchange, operation, req, query)
            : this.#identifyAndCount(exchange, operation, req, query, rateLimit);
        const request = new Request(operation, req, query, caller);
        if (operation.maxBody === 0) void this.#run(exchange, operation, request);
        else this.#readBody(exchange, operation, request, req);
      } catch (error) {
        if (exchange.permit === undefined) this.#fail(exchange, error as Error);
        else void exchange.permit.then(() => this.#fail(exchange, error as Error));
      }
    };
  }

  /**
   * In a turn that brings thousands of requests, answers of Redis to the first of them wait for its end, maybe for
   * longer than anybody may wait. Whoever comes late in such a turn is refused before the work is done.
   * @throws ServiceError `overloaded`
   */
  #admit(): void {
    if (this.#turnCount++ === 0) {
      this.#turnBegan = performance.now();
      setImmediate(this.#endOfTurn);
    } else if (this.#turnCount > CROWD && performance.now() - this.#turnBegan > this.#options.longestTurnMs)
      throw new ServiceError('overloaded');
  }

  readonly #endOfTurn = (): void => {
    this.#turnCount = 0;
  };

  /** @throws ServiceError `unauthorized`, `forbidden` */
  #identify(exchange: Exchange, { subject }: Operation, req: HttpRequest, query: string): Caller {
    const { access } = this.#options;
    return access.identify(subject, {
      authorization: req.getHeader('authorization'),
      apiKey: req.getHeader('x-api-key'),
      origin: exchange.origin === '' ? readRefererOrigin(access, req) : exchange.origin,
      query,
    });
  }

  /**
   * Also counts the request, for its caller; with wrong credentials for its address. Whether it is one too many is
   * known at the end of the turn: then it is refused from here, and `permit` tells whoever is about to act.
   */
  #identifyAndCount(
    exchange: Exchange,
    operation: Operation,
    req: HttpRequest,
    query: string,
    rateLimit: RateLimit,
  ): Caller {
    let account: string | null = null;
    try {
      const caller = this.#identify(exchange, operation, req, query);
      account = caller.account;
      return caller;
    } finally {
      const counted = rateLimit.count(
        account ?? callerAddress(exchange.res, req, this.#options.trustedProxies),
      );
      exchange.permit = counted.then(
        () => true,
        (error) => {
          exchange.reading?.abandon();
          this.#fail(exchange, error);
          return false;
        },
      );
    }
  }

  /** @throws ServiceError where the headers say already that the body will not do */
  #readBody(exchange: Exchange, operation: Operation, request: Request, req: HttpRequest): void {
    const type = req.getHeader('content-type');
    if (type !== '' && !MEDIA_TYPE.test(type)) throw new ServiceError('unsupported_media_type');
    const length = req.getHeader('content-length');
    const announced = Number(length);
    if (announced > operation.maxBody) {
      exchange.closes = announced > DRAIN_BYTES;
      throw new ServiceError('payload_too_large');
    }
    const done = (error: ServiceError | undefined, bytes: Buffer): void => {
      try {
        if (error !== undefined) {
          exchange.closes = true;
          throw error;
        }
        // The bytes are lent for the time of this call.
        if (operation.wantsBytes) request.bytes = Buffer.from(bytes);
        else request.body = parseBody(bytes);
        void this.#run(exchange, operation, request);
      } catch (failure) {
        this.#fail(exchange, failure as Error);
      }
    };
    const reading = this.#bodies.read(exchange.res, operation.maxBody, done);
    exchange.reading = reading;
    if (length === '' || announced > 0) return;
    // uWebSockets.js forgets to say that an empty body is complete where its head came in pieces, and does not
    // understand what comes after it on that connection.
    setImmediate(() => {
      if (reading.isOver) return;
      reading.abandon();
      exchange.closes = true;
      done(undefined, EMPTY);
    });
  }

  /** For paths and methods that no operation has. */
  refusal(
    code: 'not_found' | 'method_not_allowed',
    allow?: string,
  ): (res: HttpResponse, req: HttpRequest) => void {
    const onAnswer = this.#options.onAnswers(undefined);
    return (res, req) => {
      const exchange = this.#begin(res, req, onAnswer);
      exchange.allow = allow;
      exchange.isHead = req.getMethod() === 'head';
      this.#fail(exchange, new ServiceError(code));
    };
  }

  #begin(res: HttpResponse, req: HttpRequest, onAnswer: (status: number) => void): Exchange {
    this.#open++;
    const id = this.#requestId(req);
    const origin = readOrigin(this.#options.access, req);
    const exchange: Exchange = {
      origin,
      res,
      onAnswer,
      id,
      permit: undefined,
      ended: false,
      closes: false,
      reading: undefined,
      allow: undefined,
      isHead: false,
    };
    res.onAborted(() => {
      exchange.reading?.abandon();
      this.#end(exchange);
    });
    return exchange;
  }

  async #run(exchange: Exchange, operation: Operation, request: Request): Promise<void> {
    try {
      if (exchange.permit !== undefined && !(await exchange.permit)) return;
      const handled = operation.handle(request);
      // Parsed, a body may take twenty times its bytes: it is not kept while Redis is asked.
      request.body = undefined;
      const answer = await handled;
      this.#answer(exchange, typeof answer === 'string' ? { body: answer } : answer);
    } catch (error) {
      this.#fail(exchange, error as Error);
    }
  }

  #fail(exchange: Exchange, error: Error): void {
    const known = error instanceof ServiceError ? error : new ServiceError('internal');
    if (known !== error) this.#options.log.error({ err: error, requestId: exchange.id }, 'request failed');
    if (!exchange.ended) this.#options.onRefusal(known.code);
    this.#answer(exchange, errorAnswer(known, exchange.allow));
  }

  #answer(exchange: Exchange, { status, type, headers, body }: Answer): void {
    if (exchange.ended) return;
    exchange.onAnswer(status === undefined ? 200 : Number.parseInt(status, 10));
    const { res } = exchange;
    res.cork(() => {
      if (status !== undefined) res.writeStatus(status);
      res.writeHeader('content-type', (type === undefined ? JSON_TYPE : type + ANY_TYPE) + exchange.id);
      for (const name in headers) res.writeHeader(name, headers[name] as string);
      writeCors(this.#options.access, res, exchange.origin);
      const closes = exchange.closes || this.#draining;
      if (closes) res.writeHeader('connection', 'close');
      if (body !== undefined && exchange.isHead)
        res.writeHeader('content-length', `${Buffer.byteLength(body)}`);
      // With any argument, endWithoutBody of uWebSockets.js does not answer.
      if (body === undefined || exchange.isHead) res.endWithoutBody();
      else res.end(body, closes);
    });
    this.#end(exchange);
  }

  /** Answers CORS preflights, and whoever else asks which methods a path takes. */
  preflight(methods: string): (res: HttpResponse, req: HttpRequest) => void {
    const { access } = this.#options;
    return (res, req) => {
      const origin = readOrigin(access, req);
      res.writeStatus('204 No Content').writeHeader('x-request-id', this.#requestId(req));
      writeCors(access, res, origin);
      writePreflight(access, res, origin, methods);
      res.endWithoutBody();
    };
  }

  /** The caller's id where it sent a sane one. */
  #requestId(req: HttpRequest): string {
    const given = req.getHeader('x-request-id');
    return given !== '' && SANE_REQUEST_ID.test(given) ? given : this.#idPrefix + (this.#ids++).toString(36);
  }

  #end(exchange: Exchange): void {
    if (exchange.ended) return;
    exchange.ended = true;
    this.#open--;
    if (this.#open === 0) this.#onDrained?.();
  }
}

interface Exchange {
  readonly res: HttpResponse;
  readonly onAnswer: (status: number) => void;
  readonly id: string;
  /** Where there is a rate limit: whether the request is within it. One that is not is answered by then. */
  permit: Promise<boolean> | undefined;
  /** Answered or aborted: `res` may not be touched any more. */
  ended: boolean;
  /** The Origin header; empty where absent, or where no origin is allowed anyway. */
  readonly origin: string;
  /** Whether the answer closes the connection. */
  closes: boolean;
  /** The body, where there is one to come. */
  reading: Reading | undefined;
  allow: string | undefined;
  /** HEAD: the answer tells the length of its body but must not have one. */
  isHead: boolean;
}

// What all answers say goes along with the type: a call of writeHeader takes 0.17 us, whatever its length, and
// uWebSockets.js sends a value as it is given. (So nothing that a caller sent may become one unchecked.) The
// request's id comes last.
const ANY_TYPE = '\r\nx-content-type-options: nosniff\r\nx-request-id: ';
const JSON_TYPE = `application/json\r\ncache-control: no-store${ANY_TYPE}`;

function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new ServiceError('invalid_json', 'The body is not valid UTF-8.');
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new ServiceError('invalid_json');
  }
}

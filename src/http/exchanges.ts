// Handlers for uWebSockets.js: what becomes of a request before its operation is asked.
//
//   arrived ──▶ load shed ──▶ credential ──▶ rate limit ──▶ media type, size ──▶ body ──▶ operation ──▶ answered
//      └──────────┴───────────┴────────────┴──────────────┴─────────────────┴──────────┴── ServiceError ──▶ answered
//   aborted (the client left): whatever is under way finishes, and nothing is answered
//
// The later steps, and what is asked of an answer, are in exchange.ts.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { type ErrorCode, ServiceError } from '../errors.js';
import { type Access, type Caller, isGuarded } from './access.js';
import { callerAddress } from './address.js';
import { BodyReader } from './body.js';
import { writeCors, writePreflight } from './cors.js';
import { Exchange, type ExchangeHost } from './exchange.js';
import { type Head, readHead } from './head.js';
import type { Operation } from './operation.js';
import type { RateLimit } from './rate-limit.js';
import type { RateLimits } from './rate-limits.js';

export interface ExchangeOptions {
  readonly access: Access;
  readonly log: Logger;
  /** Asked once for each operation, and for what is none: what is told the status of every answer, and its milliseconds. */
  readonly onAnswers: (operation: Operation | undefined) => (status: number, ms: number) => void;
  /** Told of every answer that tells an error. */
  readonly onRefusal: (code: ErrorCode) => void;
  readonly limits: RateLimits;
  /** Milliseconds that a turn of the event loop may have taken when a crowd is still taken in. */
  readonly longestTurnMs: number;
  /** See callerAddress. */
  readonly trustedProxies: number;
}

const SANE_REQUEST_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;
/** Requests of one turn of the event loop that are always taken. */
const ALWAYS_ADMITTED = 256;

/** Milliseconds that closing waits for readers of large answers, who may never read on. */
const READ_MS = 5_000;

type Handler = (res: HttpResponse, req: HttpRequest) => void;

export class Exchanges implements ExchangeHost {
  readonly access: Access;
  readonly bodies = new BodyReader();
  readonly log: Logger;
  readonly newVisitors: RateLimit | undefined;
  readonly onRefusal: (code: ErrorCode) => void;
  /** Whether this process counts as not ready. */
  isStopping = false;
  /** Whether each answer closes its connection. */
  closesConnections = false;
  readonly #options: ExchangeOptions;
  readonly #idPrefix = `${randomBytes(6).toString('base64url')}-`;
  #ids = 0;
  #open = 0;
  #readers = 0;
  /** Requests of this turn of the event loop that are not always taken, and when the first of any kind came. */
  #turnCount = 0;
  #isInTurn = false;
  #turnBegan = 0;
  #onDrained: (() => void) | undefined;
  #onRead: (() => void) | undefined;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.access = options.access;
    this.newVisitors = options.limits.newVisitors;
    this.log = options.log;
    this.onRefusal = options.onRefusal;
  }

  /** Requests that have not been answered yet. */
  get open(): number {
    return this.#open;
  }

  onEnd(): void {
    this.#open--;
    if (this.#open === 0) this.#onDrained?.();
  }

  onReader(change: 1 | -1): void {
    this.#readers += change;
    if (this.#readers === 0) this.#onRead?.();
  }

  /** Resolves when the last request is answered and its answer read; from now on answers close their connections. */
  async finish(): Promise<void> {
    this.closesConnections = true;
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#onDrained = resolve;
      });
    }
    if (this.#readers > 0) {
      await new Promise<void>((resolve) => {
        const late = setTimeout(resolve, READ_MS);
        this.#onRead = () => {
          clearTimeout(late);
          resolve();
        };
      });
    }
    this.bodies.close();
  }

  /** @param isHead for requests of the method HEAD: the same answer without its body */
  handler(operation: Operation, isHead = false): Handler {
    const { access, onAnswers, trustedProxies } = this.#options;
    const { subject, headers, weight, answerError } = operation;
    const onAnswer = onAnswers(operation);
    const isWrite = operation.method !== 'get';
    const hasParameter = operation.path.includes(':');
    // Health, metrics and public routes are exempt from limits.
    const guarded = isGuarded(subject);
    const { callers, strangers, newVisitors } = this.#options.limits;
    const rateLimit = guarded ? callers : undefined;
    // What delivers is known by its signature alone, once its body is there: it is no stranger.
    const strangerLimit = guarded && subject !== 'delivery' ? strangers : undefined;
    const needsPayer = rateLimit !== undefined || strangerLimit !== undefined || newVisitors !== undefined;
    // What a request weighs beyond one only its body tells. It is counted before its fields are looked at.
    const countRest =
      rateLimit === undefined || weight === undefined
        ? undefined
        : ({ payer, body }: Exchange) => rateLimit.count(payer, weight(body) - 1);
    return (res, req) => {
      const parameter = hasParameter ? (req.getParameter(0) ?? '') : '';
      const exchange = this.#begin(res, req, onAnswer, headers, req.getQuery() ?? '', parameter);
      exchange.isHead = isHead;
      if (exchange.head.isAmbiguous) return this.#refuseAmbiguous(exchange);
      try {
        if (guarded) this.#shedLoad();
        try {
          exchange.caller = access.identify(subject, exchange.head, exchange.rawQuery, isWrite);
          exchange.answerError = answerError;
        } finally {
          // Also for wrong credentials, which count for their address.
          if (guarded && needsPayer) {
            const { kind, account = null } = (exchange.caller as Caller | undefined) ?? {};
            exchange.payer = account ?? callerAddress(res, req, trustedProxies);
            // A shop's visitors all come from Shopify's addresses, unless proxies are trusted to tell theirs.
            exchange.isStranger = account === null && (kind !== 'storefront' || trustedProxies > 0);
            if (exchange.isStranger) strangerLimit?.count(exchange.payer);
            rateLimit?.count(exchange.payer);
          }
        }
        operation.admit?.(exchange);
        exchange.run(operation, countRest);
      } catch (error) {
        exchange.fail(error as Error);
      }
    };
  }

  /**
   * Replies of Redis are read after this turn of the event loop. In a turn that brings thousands of requests, that may be
   * later than a request may wait, so late arrivals are refused before any work is done.
   * @throws ServiceError `overloaded`
   */
  #shedLoad(): void {
    if (
      ++this.#turnCount > ALWAYS_ADMITTED &&
      performance.now() - this.#turnBegan > this.#options.longestTurnMs
    )
      throw new ServiceError('overloaded');
  }

  readonly #endOfTurn = (): void => {
    this.#turnCount = 0;
    this.#isInTurn = false;
  };

  /** For paths and methods that no operation has. */
  refusal(code: 'not_found' | 'method_not_allowed', allow?: string): Handler {
    const onAnswer = this.#options.onAnswers(undefined);
    return (res, req) => {
      const exchange = this.#begin(res, req, onAnswer);
      exchange.allow = allow;
      if (exchange.head.isAmbiguous) return this.#refuseAmbiguous(exchange);
      exchange.isHead = req.getMethod() === 'head';
      exchange.fail(new ServiceError(code));
    };
  }

  /** Answers CORS preflights, and other requests for the methods that a path takes. */
  preflight(methods: string): Handler {
    const { access } = this.#options;
    return (res, req) => {
      const head = readHead(req);
      if (head.isAmbiguous) return void res.close();
      res.writeStatus('204 No Content').writeHeader('x-request-id', this.#requestId(head));
      writeCors(access, res, head.origin);
      writePreflight(access, res, head.origin, methods);
      if (this.closesConnections) res.writeHeader('connection', 'close');
      res.endWithoutBody();
    };
  }

  /**
   * Another server may see the end of this request elsewhere, so nothing after it may be read. uWebSockets.js reads on
   * once a request is answered, and drops a connection that brings a request while one is open: this one is open
   * until all that came with it has been read.
   */
  #refuseAmbiguous(exchange: Exchange): void {
    exchange.closes = true;
    const sentence =
      'Where the body ends is not clear: send one Content-Length, or Transfer-Encoding: chunked.';
    setImmediate(() => exchange.fail(new ServiceError('invalid_request', sentence)));
  }

  /** @param headers that the operation wants to see */
  #begin(
    res: HttpResponse,
    req: HttpRequest,
    onAnswer: (status: number, ms: number) => void,
    headers?: readonly string[],
    rawQuery = '',
    parameter = '',
  ): Exchange {
    this.#open++;
    // One look at the clock for all requests of a turn: they were there when it began.
    if (!this.#isInTurn) {
      this.#isInTurn = true;
      this.#turnBegan = performance.now();
      setImmediate(this.#endOfTurn);
    }
    const head = readHead(req, headers);
    const id = this.#requestId(head);
    return new Exchange(this, res, head, rawQuery, parameter, id, this.#turnBegan, onAnswer);
  }

  /** The caller's id where it sent a sane one. */
  #requestId({ requestId }: Head): string {
    return requestId !== '' && SANE_REQUEST_ID.test(requestId)
      ? requestId
      : this.#idPrefix + (this.#ids++).toString(36);
  }
}

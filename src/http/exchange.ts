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
import { parse as parseQuery } from 'node:querystring';
import type { Logger } from 'pino';
import { ERRORS, type Issue, ServiceError } from '../errors.js';
import type { Access, Caller, Subject } from './access.js';
import { BodyReader } from './body.js';

/** What an operation gets to see of a request. */
export interface Request {
  readonly caller: Caller;
  /** Parsed JSON; undefined where there was no body. */
  readonly body: unknown;
  query(): Readonly<Record<string, string | string[] | undefined>>;
}

export interface Answer {
  /** 200 where absent. */
  readonly status?: string;
  /** application/json where absent. */
  readonly type?: string;
  readonly body: string;
}

/** One row of the API: what a method on a path does. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  readonly path: string;
  readonly subject: Subject;
  /** Bytes of body that are taken; 0: the operation reads none. */
  readonly maxBody: number;
  handle(request: Request): Promise<string | Answer> | string | Answer;
}

export interface ExchangeOptions {
  readonly access: Access;
  readonly log: Logger;
  /** Told of every answer. */
  readonly onAnswer: (operation: Operation | undefined, status: number) => void;
}

const MEDIA_TYPE = /^(application\/json|text\/plain)[ \t]*(;|$)/i;
const SANE_REQUEST_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;
/** A client that is far beyond the limit is not listened to any longer; up to here the rest is read and dropped. */
const DRAIN_BYTES = 1024 * 1024;
const RETRY_AFTER_S = '1';

export class Exchanges {
  readonly #options: ExchangeOptions;
  readonly #bodies = new BodyReader();
  readonly #idPrefix = `${randomBytes(6).toString('base64url')}-`;
  #ids = 0;
  #open = 0;
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
    return (res, req) => {
      const exchange = this.#begin(res, req, operation);
      try {
        const caller = this.#options.access.identify(
          operation.subject,
          req.getHeader('authorization'),
          req.getHeader('x-api-key'),
        );
        const rawQuery = req.getQuery() ?? '';
        const query = () => parseQuery(rawQuery);
        if (operation.maxBody === 0) {
          void this.#run(exchange, { caller, body: undefined, query });
          return;
        }
        const type = req.getHeader('content-type');
        if (type !== '' && !MEDIA_TYPE.test(type)) throw new ServiceError('unsupported_media_type');
        const announced = Number(req.getHeader('content-length') || 0);
        if (announced > operation.maxBody) {
          exchange.closes = announced > DRAIN_BYTES;
          throw new ServiceError('payload_too_large');
        }
        exchange.release = this.#bodies.read(res, operation.maxBody, (error, bytes) => {
          if (error === undefined) void this.#readAndRun(exchange, bytes, caller, query);
          else {
            exchange.closes = true;
            this.#fail(exchange, error);
          }
        });
      } catch (error) {
        this.#fail(exchange, error as Error);
      }
    };
  }

  /** For paths and methods that no operation has. */
  refusal(
    code: 'not_found' | 'method_not_allowed',
    allow?: string,
  ): (res: HttpResponse, req: HttpRequest) => void {
    return (res, req) => {
      const exchange = this.#begin(res, req, undefined);
      exchange.allow = allow;
      this.#fail(exchange, new ServiceError(code));
    };
  }

  #begin(res: HttpResponse, req: HttpRequest, operation: Operation | undefined): Exchange {
    this.#open++;
    const given = req.getHeader('x-request-id');
    const id =
      given !== '' && SANE_REQUEST_ID.test(given) ? given : this.#idPrefix + (this.#ids++).toString(36);
    const exchange: Exchange = {
      res,
      operation,
      id,
      ended: false,
      closes: false,
      release: undefined,
      allow: undefined,
    };
    res.onAborted(() => {
      exchange.release?.();
      this.#end(exchange);
    });
    return exchange;
  }

  async #readAndRun(
    exchange: Exchange,
    bytes: Buffer,
    caller: Caller,
    query: Request['query'],
  ): Promise<void> {
    let body: unknown;
    try {
      body = parseBody(bytes);
    } catch (error) {
      this.#fail(exchange, error as Error);
      return;
    }
    await this.#run(exchange, { caller, body, query });
  }

  async #run(exchange: Exchange, request: Request): Promise<void> {
    try {
      const answer = await (exchange.operation as Operation).handle(request);
      if (typeof answer === 'string') this.#answer(exchange, 200, '200 OK', JSON_TYPE, answer);
      else {
        const { status = '200 OK', type = JSON_TYPE, body } = answer;
        this.#answer(exchange, Number.parseInt(status, 10), status, type, body);
      }
    } catch (error) {
      this.#fail(exchange, error as Error);
    }
  }

  #fail(exchange: Exchange, error: Error): void {
    const known = error instanceof ServiceError ? error : new ServiceError('internal');
    if (known !== error) this.#options.log.error({ err: error, requestId: exchange.id }, 'request failed');
    const { status } = ERRORS[known.code];
    this.#answer(exchange, status, `${status} ${REASONS[status]}`, JSON_TYPE, errorBody(known), known);
  }

  #answer(
    exchange: Exchange,
    status: number,
    statusLine: string,
    type: string,
    body: string,
    error?: ServiceError,
  ): void {
    if (exchange.ended) return;
    this.#options.onAnswer(exchange.operation, status);
    const { res, id, allow } = exchange;
    res.cork(() => {
      if (status !== 200) res.writeStatus(statusLine);
      res.writeHeader('content-type', type);
      res.writeHeader('x-request-id', id);
      if (error !== undefined) {
        if (ERRORS[error.code].retryable) res.writeHeader('retry-after', RETRY_AFTER_S);
        if (status === 401) res.writeHeader('www-authenticate', 'Bearer');
        if (allow !== undefined) res.writeHeader('allow', allow);
      }
      const closes = exchange.closes || this.#draining;
      if (closes) res.writeHeader('connection', 'close');
      res.end(body, closes);
    });
    this.#end(exchange);
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
  readonly operation: Operation | undefined;
  readonly id: string;
  /** Answered or aborted: `res` may not be touched any more. */
  ended: boolean;
  /** Whether the answer closes the connection. */
  closes: boolean;
  /** Stops the reading of the body. */
  release: (() => void) | undefined;
  allow: string | undefined;
}

const JSON_TYPE = 'application/json';

const REASONS: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new ServiceError('invalid_json', 'The body is not valid UTF-8.');
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new ServiceError('invalid_json');
  }
}

/** The contract's error body. */
function errorBody({ message, code, issues }: ServiceError): string {
  const body: { error: string; code: string; issues?: readonly Issue[] } = { error: message, code };
  if (issues !== undefined) body.issues = issues;
  return JSON.stringify(body);
}

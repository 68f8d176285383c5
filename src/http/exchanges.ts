// Handlers for uWebSockets.js: what becomes of a request before its operation is asked.
//
//   arrived ──▶ load shed ──▶ credential ──▶ rate limit ──▶ media type, size ──▶ body ──▶ operation ──▶ answered
//      └──────────┴───────────┴────────────┴──────────────┴─────────────────┴──────────┴── ServiceError ──▶ answered
//   aborted (the client left): what is under way finishes, and nothing is answered
//
// The hooks up to the rate limit are in on-request.ts, the later steps in exchange.ts.

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { BodyReader } from './body.js';
import { writeCors, writePreflight } from './cors.js';
import { Exchange, type ExchangeHost, type ExchangeOptions, type Route } from './exchange.js';
import { type Head, readHead } from './head.js';
import { Turn } from './load-shedding.js';
import { onRequest } from './on-request.js';
import { OpenCount } from './open-count.js';
import type { Operation } from './operation.js';

const SANE_REQUEST_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;

/** Milliseconds that closing waits for readers of large answers, who may never read on. */
const READ_MS = 5_000;

type Handler = (res: HttpResponse, req: HttpRequest) => void;

export class Exchanges implements ExchangeHost {
  readonly options: ExchangeOptions;
  readonly bodies: BodyReader;
  readonly requests = new OpenCount();
  readonly readers = new OpenCount();
  /** Whether this process counts as not ready. */
  isStopping = false;
  /** Whether each answer closes its connection. */
  closesConnections = false;
  readonly turn: Turn;
  readonly #idPrefix = `${randomBytes(6).toString('base64url')}-`;
  #ids = 0;
  #hasWarned = false;

  constructor(options: ExchangeOptions) {
    this.options = options;
    this.bodies = new BodyReader(options.bodyTimeoutMs);
    this.turn = new Turn(options.longestTurnMs);
  }

  /** Resolves when the last request is answered and its answer read; from now on answers close their connections. */
  async finish(): Promise<void> {
    this.closesConnections = true;
    await this.requests.none();
    await this.readers.none(READ_MS);
    this.bodies.close();
  }

  /** @param isHead for requests of the method HEAD: the same answer without its body */
  handler(operation: Operation, isHead = false): Handler {
    const hooks = onRequest(operation, this.options, this.turn);
    const route: Route = {
      onAnswer: this.options.onAnswers(operation),
      operation,
      hasParameter: operation.path.includes(':'),
      limitBody: hooks.limitBody,
    };
    return (res, req) => {
      const exchange = new Exchange(this, route, res, req);
      exchange.isHead = isHead;
      if (exchange.head.isForwarded) this.#onForwarded();
      if (exchange.head.isAmbiguous) return this.#refuseAmbiguous(exchange);
      try {
        hooks.shedLoad();
        try {
          hooks.authenticate(exchange);
        } finally {
          hooks.limit(exchange, res, req);
        }
        operation.admit?.(exchange);
        exchange.run(operation);
      } catch (error) {
        exchange.fail(error as Error);
      }
    };
  }

  /** For paths and methods that no operation has. */
  refusal(code: 'not_found' | 'method_not_allowed', allow?: string): Handler {
    const route: Route = { onAnswer: this.options.onAnswers(undefined) };
    return (res, req) => {
      const exchange = new Exchange(this, route, res, req);
      exchange.allow = allow;
      if (exchange.head.isAmbiguous) return this.#refuseAmbiguous(exchange);
      exchange.isHead = req.getMethod() === 'head';
      exchange.fail(new ServiceError(code));
    };
  }

  /** Answers CORS preflights, and other requests for the methods that a path takes. */
  preflight(methods: string): Handler {
    const { access } = this.options;
    return (res, req) => {
      const head = readHead(req);
      if (head.isAmbiguous) return void res.close();
      res.writeStatus('204 No Content').writeHeader('x-request-id', this.requestId(head));
      writeCors(access, res, head.origin);
      writePreflight(access, res, head.origin, methods);
      if (this.closesConnections) res.writeHeader('connection', 'close');
      res.endWithoutBody();
    };
  }

  readonly #onForwarded = (): void => {
    const { trustedProxies, log } = this.options;
    if (trustedProxies > 0 || this.#hasWarned) return;
    this.#hasWarned = true;
    log.warn(
      'requests have X-Forwarded-For, which is not read: if a proxy sends it, set TRUST_PROXY to the number of proxies; until then all visitors behind it share one address, and the rate limits of that',
    );
  };

  /**
   * Another server may see the end of this request elsewhere, so nothing after it may be read. uWebSockets.js reads on
   * once a request is answered, and drops a connection that brings a request while one is open: this one is open
   * until all that came with it has been read.
   */
  #refuseAmbiguous(exchange: Exchange): void {
    exchange.isCut = true;
    const sentence =
      'Where the body ends is not clear: send one Content-Length, or Transfer-Encoding: chunked without trailers.';
    setImmediate(() => exchange.fail(new ServiceError('invalid_request', sentence)));
  }

  /** The caller's id where it sent a sane one. */
  requestId({ requestId }: Head): string {
    return requestId !== '' && SANE_REQUEST_ID.test(requestId)
      ? requestId
      : this.#idPrefix + (this.#ids++).toString(36);
  }
}

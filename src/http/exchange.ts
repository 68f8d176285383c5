// One request, in the order of the functions:
//
//   head ─▶ shed load ─▶ who calls ─▶ rate limits ─▶ body ─▶ JSON ─▶ schema ─▶ whose identity ─▶ operation ─▶ answer
//     └─────────┴────────────┴────────────┴───────────┴───────┴────────┴──────────────┴── ServiceError ──────────┘
//
// uWebSockets.js requires onAborted before anything asynchronous, one answer, inside cork, and none after an abort.
//
// Every visit is an exchange, so it avoids closures and promises. Refusals are written immediately, because the next
// request on the connection may have arrived; other answers of a tick are written together (src/tick.ts).

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { performance } from 'node:perf_hooks'; // the global is a slow getter
import { overloaded, ServiceError, withOthers } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { TickQueue } from '../tick.js';
import { parseJson } from '../validation/json.js';
import type { NamedIdentity } from '../validation/requests.js';
import { type Caller, isGuarded, withLogin } from './access.js';
import { errorAnswer, LARGE_BYTES, largeBytes, type Recipient, streamIn, writeAnswer } from './answer.js';
import { admitBody, type BodyCallbacks, type Reading } from './body.js';
import type { ExchangeContext, Route } from './exchange-context.js';
import { type Head, readHead } from './head.js';
import { keyFault } from './idempotency.js';
import type { Answer, Operation, Request } from './operation.js';
import type { PendingAnswer } from './pending-bytes.js';
import { parseQuery, type Query } from './query.js';

/**
 * arriving ──▶ handled ──▶ answered ──▶ ended
 *    └────────────────────────▲
 * An abort ends any state.
 */
type State = 'arriving' | 'handled' | 'answered' | 'ended';

/** So many bytes of an unwanted body are read and dropped. A longer body ends the connection. */
const MAX_DISCARDED_BODY = 1024 * 1024;

export class Exchange implements Request, BodyCallbacks, Recipient {
  static readonly #answered = new TickQueue<Exchange>('answer', (exchanges) => {
    const now = performance.now();
    for (const exchange of exchanges) exchange.#account(now);
    for (const exchange of exchanges) exchange.#write();
  });
  static #corked: Exchange;
  static readonly #writeCorked = (): void => {
    const exchange = Exchange.#corked;
    writeAnswer(exchange.#res, exchange.#context, exchange.#answer as string | Answer, exchange);
  };
  readonly head: Head;
  readonly id: string;
  readonly isHead: boolean;
  readonly parameter: string;
  caller!: Caller;
  identity!: Identity;
  mustClose: boolean;
  held: PendingAnswer | undefined = undefined;
  readonly #context: ExchangeContext;
  readonly #route: Route;
  readonly #res: HttpResponse;
  readonly #began: number;
  readonly #rawQuery: string;
  #rateLimitKey = '';
  #reading: Reading | undefined = undefined;
  #answer: string | Answer | undefined = undefined;
  #state: State = 'arriving';

  constructor(context: ExchangeContext, route: Route, res: HttpResponse, req: HttpRequest) {
    context.openRequests++;
    const head = readHead(req, route.headers);
    this.#context = context;
    this.#route = route;
    this.#res = res;
    this.head = head;
    this.id = context.requestId(head);
    this.isHead = route.isHead ?? req.getMethod() === 'head';
    this.parameter = route.hasParameter ? (req.getParameter(0) ?? '') : '';
    this.#rawQuery = req.getQuery() ?? '';
    this.#began = context.tick.began;
    this.mustClose = head.isChunked || Number(head.contentLength) > MAX_DISCARDED_BODY;
    res.onAborted(() => {
      this.#reading?.end();
      if (this.held !== undefined) context.pending.release(this.held);
      else if (this.#state !== 'ended') this.#end();
    });
  }

  start(req: HttpRequest): void {
    const { operation, allow } = this.#route;
    try {
      if (this.head.isAmbiguous) return void this.#refuseAmbiguous();
      if (operation === undefined)
        throw new ServiceError(allow === undefined ? 'not_found' : 'method_not_allowed');
      if (this.head.isForwarded) this.#context.onForwarded();
      if (isGuarded(operation.accessGroup)) this.#context.tick.shedLoad();
      this.#identify(operation, req);
      operation.admit?.(this);
      if (operation.maxBody === 0) this.#carryOut(operation, undefined);
      else this.#readBody(operation);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /**
   * A proxy may see another end of this request (request smuggling), so nothing after it may be read. The answer waits
   * for the next tick: uWebSockets.js drops the connection if a second request arrives while this one is open.
   */
  #refuseAmbiguous(): void {
    this.mustClose = true;
    const sentence =
      'Where the body ends is not clear: send one Content-Length, or Transfer-Encoding: chunked without trailers.';
    setImmediate(() => this.fail(new ServiceError('invalid_request', sentence)));
  }

  #identify({ accessGroup, method }: Operation, req: HttpRequest): void {
    const { access, limits } = this.#context;
    try {
      this.caller = access.identify(accessGroup, this.head, this.#rawQuery, method !== 'get');
    } finally {
      // A request with wrong credentials counts for its address.
      this.#rateLimitKey = limits.count(accessGroup, this.caller, this.#res, req);
    }
  }

  #readBody(operation: Operation): void {
    admitBody(operation, this.head);
    const reading = this.#context.bodies.read(this.#res, operation.maxBody, this);
    this.#reading = reading;
    const { contentLength } = this.head;
    if (contentLength === '' || Number(contentLength) > 0) return;
    // If the head came in pieces, uWebSockets.js never reports the end of an empty body, and misreads the next request.
    setImmediate(() => {
      if (reading.isOver) return;
      reading.end();
      this.mustClose = true;
      this.#parse(Buffer.alloc(0));
    });
  }

  bodyUnread(error: ServiceError): void {
    this.mustClose = true;
    this.fail(error);
  }

  tooManyChunks(): void {
    this.#context.onRefusal('payload_too_large');
    this.#res.close();
  }

  bodyComplete(bytes: Buffer): void {
    this.mustClose = false;
    if (!this.head.isChunked) {
      this.#parse(bytes);
      return;
    }
    // Waits for the next tick, because uWebSockets.js reads trailers as the next request, and then aborts this one.
    const kept = Buffer.from(bytes);
    setImmediate(() => {
      if (this.#state !== 'ended') this.#parse(kept);
    });
  }

  #parse(bytes: Buffer): void {
    const operation = this.#route.operation as Operation;
    try {
      const body = operation.wantsBytes ? Buffer.from(bytes) : withLogin(parseJson(bytes), this.caller);
      if (operation.weight !== undefined)
        this.#context.limits.countWeight(this.#rateLimitKey, operation.weight(body));
      this.#carryOut(operation, body);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  #carryOut(operation: Operation, body: unknown): void {
    const fault = keyFault(this.#route.keyUse, this);
    if (fault !== undefined) throw withOthers(fault, () => operation.read?.(body, this));
    const input = operation.read?.(body, this);
    const named = (input as { readonly identity?: NamedIdentity } | undefined)?.identity;
    if (named !== undefined) this.identity = this.actFor(named);
    const mayBeLinked =
      named !== undefined &&
      operation.accessGroup === 'wishlist' &&
      this.#context.linkedSessions.mayRefuse(this.caller, this.identity);
    const handled = mayBeLinked ? this.#handleUnlessLinked(operation, input) : operation.handle(input, this);
    if (handled !== undefined && !(handled instanceof Promise)) return void this.answer(handled);
    if (this.#state === 'arriving') this.#state = 'handled';
    handled?.then(
      (answer) => answer !== undefined && this.answer(answer),
      (error) => this.fail(error),
    );
  }

  /** Refuses linked sessions before a write, and after a read: a login during the read may have merged the data. */
  async #handleUnlessLinked(operation: Operation, input: unknown): Promise<string | Answer | undefined> {
    const { linkedSessions } = this.#context;
    if (!operation.onlyReads) await linkedSessions.refuse(this.identity);
    const answer = await operation.handle(input, this);
    if (operation.onlyReads) await linkedSessions.refuse(this.identity);
    return answer;
  }

  query(): Query {
    return parseQuery(this.#rawQuery);
  }

  header(name: string): string {
    return this.head.header(name) ?? '';
  }

  hasEmptyHeader(name: string): boolean {
    return this.head.header(name) === '';
  }

  actFor(named: NamedIdentity): Identity {
    return this.#context.access.actFor(this.caller, named);
  }

  fail(error: Error): void {
    const known = error instanceof ServiceError ? error : new ServiceError('internal');
    if (known.code === 'internal')
      this.#context.log.error({ err: error, requestId: this.id }, 'request failed');
    if (!this.#isOpen) return;
    this.#context.onRefusal(known.code, known.overload, known.message);
    const { operation, allow } = this.#route;
    const own = this.caller === undefined ? undefined : operation?.answerError?.(known, this);
    this.answer(own ?? errorAnswer(known, allow));
  }

  answer(answer: string | Answer): void {
    const stream = streamIn(answer);
    if (stream !== undefined && (!this.#isOpen || this.mustClose)) {
      stream.close();
      if (this.mustClose) this.fail(new ServiceError('invalid_request', 'This operation takes no body.'));
      return;
    }
    if (!this.#isOpen) return;
    const bytes = largeBytes(answer);
    if (bytes > 0 && !this.#admitLarge(bytes)) return void this.fail(overloaded('readers'));
    const isLater = this.#state === 'handled';
    this.#answer = answer;
    this.#state = 'answered';
    if (isLater) {
      Exchange.#answered.push(this);
      return;
    }
    this.#account(performance.now());
    this.#write();
  }

  #admitLarge(bytes: number): boolean {
    const { limits, pending } = this.#context;
    limits.charge(this.caller, this.#rateLimitKey, Math.floor(bytes / LARGE_BYTES));
    return this.isHead || pending.makeRoom(bytes);
  }

  get #isOpen(): boolean {
    return this.#state === 'arriving' || this.#state === 'handled';
  }

  #account(now: number): void {
    if (this.#state !== 'answered') return;
    const answer = this.#answer as string | Answer;
    const status = typeof answer === 'string' ? undefined : answer.status;
    this.#route.onAnswer(status === undefined ? 200 : Number.parseInt(status, 10), now - this.#began);
  }

  #write(): void {
    if (this.#state !== 'answered') return void streamIn(this.#answer)?.close();
    this.#end();
    Exchange.#corked = this;
    this.#res.cork(Exchange.#writeCorked);
  }

  onPart(bytes: number): void {
    this.#context.limits.charge(this.caller, this.#rateLimitKey, Math.floor(bytes / LARGE_BYTES));
  }

  onCut(error: Error): void {
    this.#context.log.error(
      { err: error, requestId: this.id },
      'an answer was cut: it could not be completed',
    );
    this.#context.onRefusal(error instanceof ServiceError ? error.code : 'internal');
  }

  get closesConnection(): boolean {
    return this.mustClose || this.#context.closesConnections;
  }

  #end(): void {
    this.#state = 'ended';
    this.#context.openRequests--;
  }
}

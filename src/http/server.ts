// The HTTP server: routes, listener, shared context of requests.

import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { writePreflight } from './answer.js';
import { BodyReader } from './body.js';
import { Exchange } from './exchange.js';
import type { ExchangeContext, Route } from './exchange-context.js';
import { type Head, readHead } from './head.js';
import { IDEMPOTENCY_KEY, keyUseOf } from './idempotency.js';
import { listenOn } from './listen.js';
import { TickWatch } from './load-shedding.js';
import type { Operation } from './operation.js';
import type { PendingBytes } from './pending-bytes.js';
import type { Uws } from './uws.js';

export interface ServerOptions
  extends Pick<ExchangeContext, 'access' | 'limits' | 'linkedSessions' | 'log' | 'onRefusal' | 'pending'> {
  readonly uws: Uws;
  readonly host: string;
  readonly port: number;
  /** A prefix of the paths of `operations`, but not of those of `unprefixed`. */
  readonly basePath: string;
  readonly operations: readonly Operation[];
  readonly unprefixed: readonly Operation[];
  readonly onAnswers: (operation: Operation | undefined) => Route['onAnswer'];
  readonly longestTickMs: number;
  readonly trustedProxies: number;
  readonly bodyTimeoutMs?: number | undefined;
}

type Handler = (res: HttpResponse, req: HttpRequest) => void;

const SANE_REQUEST_ID = /^[A-Za-z0-9._~:/+=@-]{1,128}$/;
const LAST_REQUEST_MS = 1_000;
/** How long `close` waits for slow readers. */
const READ_MS = 5_000;
const POLL_MS = 5;

export class Server implements ExchangeContext {
  readonly access: ExchangeContext['access'];
  readonly limits: ExchangeContext['limits'];
  readonly linkedSessions: ExchangeContext['linkedSessions'];
  readonly log: ExchangeContext['log'];
  readonly onRefusal: ExchangeContext['onRefusal'];
  readonly tick: TickWatch;
  readonly bodies: BodyReader;
  readonly pending: PendingBytes;
  readonly port: number;
  openRequests = 0;
  isStopping = false;
  closesConnections = false;
  readonly #options: ServerOptions;
  readonly #app: TemplatedApp;
  readonly #idPrefix = `${randomBytes(6).toString('base64url')}-`;
  #ids = 0;
  #hasWarned = false;
  #listening: us_listen_socket | undefined;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.access = options.access;
    this.limits = options.limits;
    this.linkedSessions = options.linkedSessions;
    this.log = options.log;
    this.onRefusal = options.onRefusal;
    this.pending = options.pending;
    this.tick = new TickWatch(options.longestTickMs);
    this.bodies = new BodyReader(options.bodyTimeoutMs);
    this.#app = options.uws.App();
    this.#addRoutes();
    this.#listening = listenOn(options.uws, this.#app, options.host, options.port);
    this.port = options.uws.us_socket_local_port(this.#listening);
  }

  /**
   * First, /readyz answers 503 for `ms` milliseconds, or until `hurry` aborts, so that balancers send no more requests.
   * Only then does the server stop listening: the kernel resets connections that arrive at that moment.
   */
  async drain(ms: number, hurry?: AbortSignal): Promise<void> {
    this.isStopping = true;
    const pause = (time: number) => sleep(time, undefined, hurry && { signal: hurry }).catch(() => {});
    await pause(ms);
    this.#stopListening();
    this.closesConnections = true;
    await pause(Math.min(ms, LAST_REQUEST_MS));
  }

  async close(): Promise<void> {
    this.#stopListening();
    this.closesConnections = true;
    while (this.openRequests > 0) await sleep(POLL_MS);
    const giveUpAt = performance.now() + READ_MS;
    while (this.pending.readers > 0 && performance.now() < giveUpAt) await sleep(POLL_MS);
    this.bodies.close();
    this.#app.close();
  }

  requestId({ requestId }: Head): string {
    return requestId !== '' && SANE_REQUEST_ID.test(requestId)
      ? requestId
      : this.#idPrefix + (this.#ids++).toString(36);
  }

  onForwarded(): void {
    if (this.#options.trustedProxies > 0 || this.#hasWarned) return;
    this.#hasWarned = true;
    this.log.warn(
      'requests have X-Forwarded-For, which is not read: if a proxy sends it, set TRUST_PROXY to the number of proxies; until then all visitors behind it share one address, and the rate limits of that',
    );
  }

  #addRoutes(): void {
    const { basePath, operations, unprefixed, onAnswers } = this.#options;
    const byPath = new Map<string, Operation[]>();
    const add = (path: string, operation: Operation) =>
      byPath.set(path, [...(byPath.get(path) ?? []), operation]);
    for (const operation of unprefixed) add(operation.path, operation);
    for (const operation of operations) {
      add(basePath + operation.path, operation);
      if (operation.path === '/' && basePath !== '') add(basePath, operation);
    }
    for (const [path, ofPath] of [...byPath]) {
      if (path.includes(':')) byPath.set(`${path}/`, ofPath);
    }
    const app = this.#app;
    const onAnswer = onAnswers(undefined);
    for (const [path, ofPath] of byPath) {
      const methods: string[] = [];
      for (const operation of ofPath) {
        const hasParameter = path.includes(':');
        const keyUse = keyUseOf(operation);
        const headers =
          keyUse === 'refused' ? [...(operation.headers ?? []), IDEMPOTENCY_KEY] : operation.headers;
        const route = {
          operation,
          keyUse,
          headers,
          hasParameter,
          isHead: false,
          onAnswer: onAnswers(operation),
        };
        app[operation.method === 'delete' ? 'del' : operation.method](path, this.#handler(route));
        methods.push(operation.method.toUpperCase());
        if (operation.method !== 'get') continue;
        app.head(path, this.#handler({ ...route, isHead: true }));
        methods.push('HEAD');
      }
      const allow = methods.join(', ');
      app.options(path, this.#preflight(allow));
      app.any(path, this.#handler({ allow, onAnswer }));
    }
    app.any('/*', this.#handler({ onAnswer }));
  }

  #handler(route: Route): Handler {
    return (res, req) => new Exchange(this, route, res, req).start(req);
  }

  #preflight(methods: string): Handler {
    return (res, req) => {
      const head = readHead(req);
      // This may be request smuggling; see Exchange.
      if (head.isAmbiguous) return void res.close();
      const { closesConnections: closesConnection } = this;
      writePreflight(res, this.access, methods, { id: this.requestId(head), head, closesConnection });
    };
  }

  #stopListening(): void {
    if (this.#listening !== undefined) this.#options.uws.us_listen_socket_close(this.#listening);
    this.#listening = undefined;
  }
}

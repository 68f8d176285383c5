// The dashboard's HTTP server. Pages and their files are public; data needs a log-in. POSTs from other origins are
// refused, because SameSite=Strict lets in pages at another port of the same machine.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { type ClickHouseClient, ClickHouseError } from '@clickhouse/client';
import type { Logger } from 'pino';
import { StartupError } from '../../errors.js';
import { type ImageRule, imageAddress } from '../../http/html.js';
import { HTML, ownPagePolicy } from '../../http/own-pages.js';
import { MAX_HANDLE_CHARACTERS } from '../../identity-rules.js';
import type { NamedToken } from '../../setting-values.js';
import type { Receivers } from '../receivers/receivers.js';
import { HEADERS, readJson, send } from './answer.js';
import { csvOf } from './csv.js';
import { Login } from './login.js';
import { type Deployment, type File, readFiles } from './pages.js';
import { comparedStatementOf, readParameters, readRange, shownWith, statementOf } from './panel.js';
import { PANELS } from './panels.js';
import { PRODUCT_PANELS } from './product-panels.js';
import { ReceiversPage } from './receivers-page.js';
import { readRows } from './rows.js';
import type { VisitorsAnswer, VisitorsPage } from './visitors/visitors-page.js';

const LOGIN_CHARACTERS = 1_024;
/** Has the ids of all profiles that the page shows. */
const VISITOR_CHARACTERS = 65_536;
const PANEL_MS = 60_000;
/** Milliseconds in which a request must arrive. */
const REQUEST_MS = 10_000;

export interface DashboardOptions extends Omit<Deployment, 'hasVisitors'> {
  readonly timeZone: () => Promise<string>;
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly token: string;
  readonly logins?: readonly NamedToken[];
  readonly images: ImageRule;
  /** A client whose default database has the views. */
  readonly clickhouse: ClickHouseClient;
  readonly receivers?: () => Promise<Receivers>;
  readonly visitors?: VisitorsPage;
  readonly log: Logger;
  /** @returns the reason, without a full stop; undefined if ClickHouse answers */
  readonly whyNotReady?: () => Promise<string | undefined>;
  readonly wrongMs?: number;
  readonly panelMs?: number;
}

export interface Dashboard {
  readonly port: number;
  close(): Promise<void>;
}

export async function startDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { host, port, log } = options;
  const dashboard = new Requests(options);
  const server = createServer(
    { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS },
    (request, response) => {
      dashboard.answer(request, response).catch((error) => {
        log.error({ err: error }, 'a request of the dashboard failed');
        if (!response.headersSent)
          send(response, 500, { error: 'The dashboard made a mistake; its log has it.' });
        else response.destroy();
      });
    },
  );
  server.listen(port, host);
  await Promise.race([
    once(server, 'listening'),
    once(server, 'error').then(([error]) => Promise.reject(error)),
  ]).catch((error: NodeJS.ErrnoException) => {
    throw new StartupError(
      `DASHBOARD_PORT: port ${port} on ${host} can't be listened on (${error.code}); stop what listens there or set another.`,
    );
  });
  return { port: (server.address() as AddressInfo).port, close: () => closed(server) };
}

async function closed(server: Server): Promise<void> {
  const end = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await end;
}

class Requests {
  readonly #login: Login;
  readonly #clickhouse: ClickHouseClient;
  readonly #receivers: ReceiversPage;
  readonly #visitors: VisitorsPage | undefined;
  readonly #log: Logger;
  readonly #timeZone: () => Promise<string>;
  readonly #panelMs: number;
  readonly #files: ReadonlyMap<string, File>;
  readonly #images: ImageRule;
  readonly #whyNotReady: () => Promise<string | undefined>;

  constructor(options: DashboardOptions) {
    const { clickhouse, receivers, visitors, log, timeZone, panelMs = PANEL_MS } = options;
    this.#panelMs = panelMs;
    this.#whyNotReady = options.whyNotReady ?? (async () => undefined);
    this.#timeZone = timeZone;
    this.#files = readFiles({ ...options, hasVisitors: visitors !== undefined });
    this.#images = options.images;
    this.#login = new Login(options.token, options.logins, options.wrongMs);
    this.#clickhouse = clickhouse;
    this.#receivers = new ReceiversPage(receivers, log);
    this.#visitors = visitors;
    this.#log = log;
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!URL.canParse(request.url ?? '', 'http://dashboard'))
      return send(response, 400, { error: 'That is no path.' });
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://dashboard');
    const isReading = request.method === 'GET' || request.method === 'HEAD';
    const file = this.#files.get(pathname);
    if (file !== undefined && isReading) {
      const content =
        file.type === HTML
          ? Buffer.from(file.content.toString().replaceAll('{time_zone}', await this.#timeZone()))
          : file.content;
      response.writeHead(200, {
        ...HEADERS,
        'content-security-policy': ownPagePolicy("'self'", this.#images.imageHosts),
        'content-type': file.type,
        'content-length': content.length,
      });
      return void response.end(request.method === 'HEAD' ? undefined : content);
    }
    if (pathname === '/healthz' && isReading) return send(response, 200, { status: 'ok' });
    if (pathname === '/readyz' && isReading) {
      const why = await this.#whyNotReady();
      if (why === undefined) return send(response, 200, { status: 'ready' });
      return send(response, 503, { error: `Not ready: ${why}.`, code: 'unavailable' });
    }
    if (request.method === 'POST' && !isOwnPage(request))
      return send(response, 403, { error: 'Another site may not do this.' });
    if (pathname === '/login' && request.method === 'POST') return await this.#logIn(request, response);
    if (pathname === '/logout' && request.method === 'POST') {
      response.setHeader('set-cookie', this.#login.end(request.headers.cookie ?? ''));
      return send(response, 200, {});
    }
    const [, name, suffix] = (isReading && /^\/panels\/(\w+)(\.csv)?$/.exec(pathname)) || [];
    const [, tested] = (request.method === 'POST' && /^\/receivers\/([\w-]+)\/test$/.exec(pathname)) || [];
    const isList = isReading && pathname === '/receivers.json';
    const action = this.#visitors?.actionAt(request.method, pathname);
    if (name === undefined && tested === undefined && !isList && action === undefined)
      return send(response, 404, { error: 'There is nothing at this path.' });
    const person = this.#login.personOf(request.headers.cookie ?? '', Date.now());
    if (person === undefined)
      return send(response, 401, { error: 'Log in with the token that `wishmeter start` prints.' });
    if (action !== undefined && this.#visitors !== undefined) {
      const body = request.method === 'POST' ? await readJson(request, VISITOR_CHARACTERS) : undefined;
      const answer = (signal: AbortSignal) => this.#visitors?.answer(action, person, body, signal);
      return await this.#visitor(response, answer);
    }
    if (name !== undefined) return await this.#panel(response, name, searchParams, suffix !== undefined);
    send(response, ...(await (tested === undefined ? this.#receivers.list() : this.#receivers.test(tested))));
  }

  /** Rows without images that the page may not load. */
  #shownRows(names: readonly string[], rows: readonly (readonly unknown[])[]) {
    const at = names.indexOf('image');
    if (at === -1) return rows;
    return rows.map((row) => row.with(at, imageAddress(row[at] as string | null, this.#images) ?? null));
  }

  async #logIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { token: given } = { token: undefined, ...((await readJson(request, LOGIN_CHARACTERS)) as object) };
    const token = typeof given === 'string' ? (given as string).trim() : undefined;
    if (token === undefined) return send(response, 400, { error: 'Send {"token": "…"} as JSON.' });
    const outcome = await this.#login.attempt(token);
    if (typeof outcome === 'object') {
      const secure = request.headers['x-forwarded-proto'] === 'https';
      response.setHeader('set-cookie', this.#login.begin(outcome, Date.now(), secure));
      return send(response, 200, { wrongTokens: this.#login.wrong });
    }
    if (outcome === 'crowded') {
      response.setHeader('retry-after', '5');
      return send(response, 429, { error: 'Many tokens are being tried; try again in some seconds.' });
    }
    const { 'x-forwarded-for': forwardedFor } = request.headers;
    const address = request.socket.remoteAddress;
    this.#log.warn({ wrong: this.#login.wrong, address, forwardedFor }, 'a wrong token');
    send(response, 401, { error: 'That is not the token.' });
  }

  async #visitor(
    response: ServerResponse,
    answerOf: (gone: AbortSignal) => Promise<VisitorsAnswer> | undefined,
  ): Promise<void> {
    if (response.destroyed) return;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const answer = await answerOf(gone.signal);
      if (answer === undefined) return;
      if (!('bytes' in answer)) return send(response, ...answer);
      response.writeHead(200, {
        ...HEADERS,
        'content-type': 'application/json; charset=utf-8',
        'content-disposition': 'attachment; filename="visitor.json"',
        // nginx would store what its buffers don't hold in a file.
        'x-accel-buffering': 'no',
      });
      await pipeline(answer.bytes, response);
    } catch (error) {
      if (gone.signal.aborted && !response.headersSent) return;
      if (!response.headersSent) throw error;
      this.#log.warn({ err: error }, 'an export was cut');
    }
  }

  async #panel(
    response: ServerResponse,
    name: string,
    query: URLSearchParams,
    asCsv: boolean,
  ): Promise<void> {
    const panel = [...PANELS, ...PRODUCT_PANELS].find((one) => one.name === name);
    if (panel === undefined) return send(response, 404, { error: 'There is no such panel.' });
    const range = readRange(query.get('from') ?? '', query.get('to') ?? '');
    if (typeof range === 'string') return send(response, 400, { error: range });
    const parameters = readParameters(panel, query);
    if (parameters === undefined)
      return send(response, 400, {
        error: `\`${panel.parameters?.join('`, `')}\` is a text of 1 to ${MAX_HANDLE_CHARACTERS} characters.`,
      });
    const timeZone = await this.#timeZone();
    const sql = asCsv
      ? statementOf(panel, range, timeZone)
      : comparedStatementOf(panel, range, query.get('compare') === 'year', timeZone);
    // Aborts the query when the browser disconnects, as when the user chooses other days.
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const began = performance.now();
    try {
      const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(this.#panelMs)]);
      const { names, rows } = await readRows(this.#clickhouse, sql, parameters, signal);
      const ms = Math.round(performance.now() - began);
      if (!asCsv) {
        const shown = shownWith(sql, parameters);
        return send(response, 200, {
          title: panel.title,
          sql: shown,
          ms,
          names,
          rows: this.#shownRows(names, rows),
        });
      }
      const file = `wishmeter-${name}-${range.from}-${range.to}.csv`;
      response.setHeader('content-disposition', `attachment; filename="${file}"`);
      // Without a byte order mark, spreadsheets assume the code page of their country.
      const body = Buffer.from(`\ufeff${csvOf(names, rows)}`);
      response.writeHead(200, {
        ...HEADERS,
        'content-type': 'text/csv; charset=utf-8',
        'content-length': body.length,
      });
      response.end(body);
    } catch (error) {
      if (response.destroyed) return;
      // ClickHouse's message may contain visitors' data, so only the log has it.
      this.#log.warn({ panel: name, err: error }, 'a panel was not answered');
      const why =
        error instanceof ClickHouseError
          ? `ClickHouse refused this panel (code ${error.code}); the dashboard's log has why.`
          : 'ClickHouse does not answer.';
      send(response, 503, { error: why, away: !(error instanceof ClickHouseError) });
    }
  }
}

/**
 * True also if no page sent the request, but curl. Browsers send Sec-Fetch-Site only to https and localhost. Otherwise
 * the host of Origin decides, without the scheme, since a proxy may have added https.
 */
function isOwnPage({ headers }: IncomingMessage): boolean {
  const { origin, host, 'sec-fetch-site': site } = headers;
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  return origin === undefined || (URL.canParse(origin) && new URL(origin).host === host);
}

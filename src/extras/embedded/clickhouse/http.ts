// ClickHouse's HTTP interface (https://clickhouse.com/docs/interfaces/http), without ClickHouse's own compression, later
// versions of the format Native, external tables in forms, roles, and sessions of several requests.
//
// The analyst needs no password, so pages of other origins are refused, by Sec-Fetch-Site, Origin and Host.

import { randomBytes, randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { ClickHouseEngine, Result } from './engine.js';
import { ClickHouseError } from './errors.js';
import { type Request, readRequest } from './request.js';

const TEXT = 'text/plain; charset=UTF-8';

/** Milliseconds for a client to read its error, before it is disconnected. */
const DISCONNECT_MS = 5_000;

const LOCAL_HOST = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i;

const HEADERS = {
  'Content-Type': TEXT,
  'X-Content-Type-Options': 'nosniff',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'X-ClickHouse-Server-Display-Name': hostname(),
};

export async function createHandler(
  engine: ClickHouseEngine,
  servicePassword: string,
): Promise<RequestListener> {
  await engine.prepare();
  const [version = '', timezone = ''] = await engine.column(
    'SELECT arrayJoin([version(), serverTimezone()])',
  );
  const formats = await engine.column("SELECT name || '\\t' || content_type FROM system.formats");
  const contentTypes = new Map(formats.map((line) => line.split('\t') as [string, string]));

  const textOf = (error: ClickHouseError) => `${error.message} (version ${version} (official build))\n`;

  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const url = new URL(req.url ?? '/', 'http://localhost');
    if (url.pathname === '/ping') return respond(res, 200, 'Ok.\n');
    if (url.pathname !== '/')
      return respond(res, 404, `There is no handle ${url.pathname}\n\nUse / or /ping for health checks.\n`);
    if (!isFromHere(req))
      throw ClickHouseError.of('ACCESS_DENIED', 'Pages of another origin have no access.');
    if ((req.method === 'GET' || req.method === 'HEAD') && !url.searchParams.has('query'))
      return respond(res, 200, 'Ok.\n');
    if (req.method !== 'GET' && req.method !== 'POST') return respond(res, 405, '', { Allow: 'GET, POST' });

    const gone = new AbortController();
    res.once('close', () => {
      if (!res.writableFinished) gone.abort();
    });
    const request = await readRequest(req, url, servicePassword);
    res.setHeader('X-ClickHouse-Query-Id', request.queryId ?? randomUUID());
    const startedAt = performance.now();
    await engine.run(request, gone.signal, (result) => {
      res.setHeader('X-ClickHouse-Summary', summaryOf(request, result, performance.now() - startedAt));
      return answer(res, request, result);
    });
  };

  const answer = async (res: ServerResponse, request: Request, result: Result): Promise<void> => {
    const { format, rows, ends, errorOf } = result;
    const tag = randomBytes(8).toString('hex');
    res.writeHead(200, {
      ...HEADERS,
      'Content-Type': contentTypes.get(format) ?? TEXT,
      'X-ClickHouse-Timezone': timezone,
      'X-ClickHouse-Format': format,
      'X-ClickHouse-Exception-Tag': tag,
      ...(request.gzip ? { 'Content-Encoding': 'gzip' } : {}),
    });
    const disconnect = () => setTimeout(() => res.destroy(), DISCONNECT_MS).unref();
    ends.addEventListener('abort', disconnect);
    const chunks = withException(rows, tag, (error) => textOf(errorOf(error)));
    const body = Readable.from(chunks, { objectMode: false });
    try {
      await (request.gzip ? pipeline(body, createGzip(), res) : pipeline(body, res));
    } finally {
      ends.removeEventListener('abort', disconnect);
    }
  };

  const fail = (res: ServerResponse, error: ClickHouseError): void =>
    respond(res, error.status, textOf(error), { 'X-ClickHouse-Exception-Code': String(error.code) });

  return (req, res) => {
    handle(req, res).catch((error) => {
      if (res.headersSent) res.destroy();
      else fail(res, ClickHouseError.from(error));
    });
  };
}

function respond(res: ServerResponse, status: number, body: string, headers = {}): void {
  res.writeHead(status, { ...HEADERS, ...headers }).end(body);
}

function isFromHere({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'] ?? 'none';
  if (site !== 'none' && site !== 'same-origin') return false;
  if (headers.host !== undefined && !LOCAL_HOST.test(headers.host)) return false;
  return headers.origin === undefined || headers.origin === `http://${headers.host}`;
}

/** Ends the body with an error that came late, as ClickHouse servers do since 25.11. */
async function* withException(
  chunks: AsyncIterable<Buffer>,
  tag: string,
  textOf: (error: unknown) => string,
): AsyncGenerator<Buffer> {
  try {
    yield* chunks;
  } catch (error) {
    const text = textOf(error);
    yield Buffer.from(
      `\r\n__exception__\r\n${tag}\r\n${text}${Buffer.byteLength(text)} ${tag}\r\n__exception__\r\n`,
    );
  }
}

function summaryOf({ statement }: Request, { read }: Result, elapsedMs: number): string {
  const { rowsRead, bytesRead } = read;
  const numbers = {
    read_rows: rowsRead,
    read_bytes: bytesRead,
    written_rows: statement.isInsert ? rowsRead : 0,
    written_bytes: statement.isInsert ? bytesRead : 0,
    total_rows_to_read: 0,
    result_rows: rowsRead,
    result_bytes: bytesRead,
    elapsed_ns: Math.round(elapsedMs * 1e6),
  };
  return JSON.stringify(Object.fromEntries(Object.entries(numbers).map(([name, n]) => [name, String(n)])));
}

// ClickHouse's HTTP interface (https://clickhouse.com/docs/interfaces/http) over the engine, so that
// @clickhouse/client, curl and dashboards meet what a server shows them: headers, statuses, error texts.
//
// Left out on purpose, and refused with a sentence: ClickHouse's own compression of requests, external tables in forms,
// roles. A session is one request. Users are those of clickhouse-users.ts. It serves this machine only. A browser's page of another origin is
// refused, by Sec-Fetch-Site, Origin and Host, and may not have an answer as script or image: the analyst needs no
// password, and a page in the browser of this machine must not be one.

import { randomBytes, randomUUID } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { hostname } from 'node:os';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { ClickHouseEngine } from './clickhouse-engine.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { frame, framed } from './clickhouse-frames.js';
import { laterNative } from './clickhouse-native.js';
import { isFramed, type Query, readQuery } from './clickhouse-request.js';

const TEXT = 'text/plain; charset=UTF-8';

/** Formats whose chunks, put together, are the document, but for the names before each; all others are made whole. */
const STREAMABLE =
  /^(JSONEachRow|JSONLines|NDJSON|JSONStringsEachRow|Native|TabSeparatedRaw|TSVRaw|(TabSeparated|TSV|CSV|JSONCompactEachRow|JSONCompactStringsEachRow|RowBinary)(WithNames(AndTypes)?)?)$/;
/** What puts something before or after all rows of such a format. */
const WHOLE = /\b(totals|extremes|output_format_json_array_of_rows)\b/i;

/** After which a client that does not read why its statement was ended is cut off. */
const LAST_WORDS_MS = 5_000;

const LOCAL_HOST = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i;

/** Answers requests with what the engine says. Asks the engine for its version, time zone and formats first. */
export async function createHandler(
  engine: ClickHouseEngine,
  servicePassword: string,
): Promise<RequestListener> {
  await engine.prepare();
  const [version = '', timezone = ''] = await engine.column(
    'SELECT arrayJoin([version(), serverTimezone()])',
  );
  const contentTypes = new Map(
    (await engine.column("SELECT name || '\\t' || content_type FROM system.formats FORMAT TSVRaw")).map(
      (line) => line.split('\t') as [string, string],
    ),
  );
  const common = {
    'X-Content-Type-Options': 'nosniff',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'X-ClickHouse-Server-Display-Name': hostname(),
    'Access-Control-Expose-Headers':
      'X-ClickHouse-Query-Id,X-ClickHouse-Summary,X-ClickHouse-Server-Display-Name,X-ClickHouse-Format,X-ClickHouse-Timezone,X-ClickHouse-Exception-Code',
  };

  const told = (error: ClickHouseError) => `${error.message} (version ${version} (official build))\n`;

  const fail = (req: IncomingMessage, res: ServerResponse, error: ClickHouseError): void => {
    res.writeHead(error.status, {
      ...common,
      'Content-Type': TEXT,
      'X-ClickHouse-Exception-Code': String(error.code),
    });
    const text = Buffer.from(told(error));
    res.end(isFramed(req) ? frame(text) : text);
  };

  const answer = async (res: ServerResponse, query: Query): Promise<void> => {
    const startedAt = performance.now();
    const gone = new AbortController();
    res.once('close', () => gone.abort());
    const headers = (contentType: string, summary: Record<string, number>) => ({
      ...common,
      'Content-Type': contentType,
      'X-ClickHouse-Timezone': timezone,
      'X-ClickHouse-Summary': summaryOf({ ...summary, elapsed_ns: (performance.now() - startedAt) * 1e6 }),
    });
    if (query.isInsert) {
      const { rows, bytes } = await engine.insert(query.scope, query.sql, query.body);
      res.writeHead(
        200,
        headers(TEXT, {
          read_rows: rows,
          read_bytes: bytes,
          written_rows: rows,
          written_bytes: bytes,
          result_rows: rows,
          result_bytes: bytes,
        }),
      );
      res.end();
      return;
    }
    const sql = query.body.length > 0 ? `${query.sql}\n${Buffer.concat(query.body).toString()}` : query.sql;
    const names = query.scope.settings.map(([name]) => name).join(' ');
    const stream = STREAMABLE.test(query.format) && !WHOLE.test(sql) && !WHOLE.test(names);
    const result = await engine.query(query.scope, sql, query.format, stream, gone.signal);
    const tag = randomBytes(8).toString('hex');
    res.writeHead(200, {
      ...headers(contentTypes.get(query.format) ?? TEXT, {
        read_rows: result.rows,
        read_bytes: result.bytes,
        result_rows: result.rows,
        result_bytes: result.bytes,
      }),
      'X-ClickHouse-Format': query.format,
      'X-ClickHouse-Exception-Tag': tag,
      ...(query.gzip ? { 'Content-Encoding': 'gzip' } : {}),
    });
    result.ends?.addEventListener('abort', () => setTimeout(() => res.destroy(), LAST_WORDS_MS).unref());
    const rows = query.laterNative ? laterNative(result.chunks) : result.chunks;
    const chunks = withException(rows, tag, told);
    const body = Readable.from(query.framed ? framed(chunks) : chunks, { objectMode: false });
    await (query.gzip ? pipeline(body, createGzip(), res) : pipeline(body, res));
  };

  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const url = new URL(req.url ?? '/', 'http://localhost');
    if (url.pathname === '/ping' || url.pathname === '/replicas_status') {
      res.writeHead(200, { ...common, 'Content-Type': TEXT }).end('Ok.\n');
      return;
    }
    if (url.pathname !== '/') {
      res.writeHead(404, { ...common, 'Content-Type': TEXT });
      res.end(`There is no handle ${url.pathname}\n\nUse / or /ping for health checks.\n`);
      return;
    }
    if (!isFromHere(req))
      throw ClickHouseError.of('ACCESS_DENIED', 'Pages of another origin have no access.');
    if ((req.method === 'GET' || req.method === 'HEAD') && !url.searchParams.has('query')) {
      res.writeHead(200, { ...common, 'Content-Type': TEXT }).end('Ok.\n');
      return;
    }
    if (req.method !== 'GET' && req.method !== 'POST') {
      res.writeHead(405, { ...common, Allow: 'GET, POST', 'Content-Type': TEXT }).end();
      return;
    }
    const query = await readQuery(req, url, servicePassword);
    res.setHeader('X-ClickHouse-Query-Id', query.queryId ?? randomUUID());
    await answer(res, query);
  };

  return (req, res) => {
    handle(req, res).catch((error) => {
      if (res.headersSent) res.destroy();
      else fail(req, res, ClickHouseError.from(error));
    });
  };
}

function isFromHere({ headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'] ?? 'none';
  if (site !== 'none' && site !== 'same-origin') return false;
  if (headers.host !== undefined && !LOCAL_HOST.test(headers.host)) return false;
  return headers.origin === undefined || headers.origin === `http://${headers.host}`;
}

/** An error behind the first rows has no status left to go into: it is told at the end, as servers from 25.11 on do. */
async function* withException(
  chunks: AsyncIterable<Buffer>,
  tag: string,
  told: (error: ClickHouseError) => string,
): AsyncGenerator<Buffer> {
  try {
    yield* chunks;
  } catch (error) {
    const text = told(ClickHouseError.from(error));
    yield Buffer.from(
      `\r\n__exception__\r\n${tag}\r\n${text}${Buffer.byteLength(text)} ${tag}\r\n__exception__\r\n`,
    );
  }
}

function summaryOf(known: Record<string, number>): string {
  const all = {
    read_rows: 0,
    read_bytes: 0,
    written_rows: 0,
    written_bytes: 0,
    total_rows_to_read: 0,
    result_rows: 0,
    result_bytes: 0,
    elapsed_ns: 0,
    ...known,
  };
  return JSON.stringify(
    Object.fromEntries(Object.entries(all).map(([name, n]) => [name, String(Math.round(n))])),
  );
}

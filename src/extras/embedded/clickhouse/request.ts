// Parses an HTTP request as ClickHouse's src/Server/HTTPHandler.cpp does.

import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Query } from './engine.js';
import { ClickHouseError } from './errors.js';
import { readStatement } from './statement.js';
import { mayAnalystSet, roleOf, type User, userOf } from './users.js';

/** A body is held in memory, so that nothing is inserted if the connection breaks. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

const DEFAULT_FORMAT = 'TabSeparated';

/** From this client_protocol_version on, a client expects blocks of Native as chDB doesn't write them. */
const LATER_NATIVE = 54_454;

const NOT_SETTINGS = new Set([
  '',
  'query',
  'query_id',
  'database',
  'default_format',
  'user',
  'password',
  'readonly',
  'quota_key',
  'stacktrace',
  'buffer_size',
  'wait_end_of_query',
  'compress',
  'decompress',
  'client_protocol_version',
  'enable_http_compression',
  'session_id',
  'session_timeout',
  'session_check',
]);

export interface Request extends Query {
  readonly queryId: string | undefined;
  readonly gzip: boolean;
}

export async function readRequest(req: IncomingMessage, url: URL, servicePassword: string): Promise<Request> {
  const given = url.searchParams;
  const header = (name: string) => req.headers[name]?.toString();
  const user = authenticate(req, given, servicePassword);
  refuseUnsupported(given, header('content-type'));

  const params = new Map<string, string>();
  const settings = new Map<string, string>();
  for (const [name, value] of given) {
    if (name.startsWith('param_')) params.set(name.slice('param_'.length), value);
    else if (NOT_SETTINGS.has(name)) continue;
    else if (roleOf(user) === 'analyst' && !mayAnalystSet(name))
      throw ClickHouseError.of('ACCESS_DENIED', `The user analyst may not change the setting '${name}'.`);
    else settings.set(name, value);
  }
  const inUrl = given.get('query') ?? '';
  const body = req.method === 'POST' ? await readBody(req) : [];
  const statement = readStatement(Buffer.concat([Buffer.from(inUrl && `${inUrl}\n`), ...body]));
  return {
    scope: {
      user,
      database: header('x-clickhouse-database') ?? given.get('database') ?? undefined,
      settings,
      params,
      readonly: roleOf(user) === 'analyst' ? 1 : readonlyOf(given.getAll('readonly'), req.method),
    },
    statement,
    format: header('x-clickhouse-format') ?? given.get('default_format') ?? DEFAULT_FORMAT,
    queryId: given.get('query_id') ?? header('x-clickhouse-query-id'),
    gzip:
      !statement.isInsert &&
      given.get('enable_http_compression') === '1' &&
      /\bgzip\b/.test(header('accept-encoding') ?? ''),
  };
}

function authenticate(req: IncomingMessage, given: URLSearchParams, servicePassword: string): User {
  const [, basic] = /^Basic (.+)$/is.exec(req.headers.authorization ?? '') ?? [];
  const [basicUser, ...basicPassword] = basic ? Buffer.from(basic, 'base64').toString().split(':') : [];
  const user = (req.headers['x-clickhouse-user'] ?? basicUser ?? given.get('user') ?? '').toString();
  const password = (
    req.headers['x-clickhouse-key'] ??
    (basicPassword.join(':') || given.get('password')) ??
    ''
  ).toString();
  const known = userOf({ user, password }, servicePassword);
  if (known !== undefined) return known;
  throw ClickHouseError.of(
    'AUTHENTICATION_FAILED',
    `${user}: Authentication failed: password is incorrect, or there is no user with such name.`,
  );
}

function refuseUnsupported(given: URLSearchParams, contentType = ''): void {
  const lacks = (what: string) =>
    ClickHouseError.of('NOT_IMPLEMENTED', `${what} is not supported by the embedded ClickHouse.`);
  if (given.get('decompress') === '1') throw lacks("ClickHouse's own compression of a request (decompress)");
  if (given.get('compress') === '1') throw lacks("ClickHouse's own compression (compress=1)");
  if (Number(given.get('client_protocol_version')) >= LATER_NATIVE)
    throw lacks(`A client_protocol_version of ${LATER_NATIVE} or later`);
  if (contentType.startsWith('multipart/form-data')) throw lacks('External data in a form');
  if (given.has('role')) throw lacks('role');
}

/** The strictest value counts. An invalid value means 1, and GET means 2. */
function readonlyOf(asked: readonly string[], method: string | undefined): 0 | 1 | 2 {
  if (asked.some((value) => value !== '0' && value !== '2')) return 1;
  return method === 'GET' || asked.includes('2') ? 2 : 0;
}

async function readBody(req: IncomingMessage): Promise<Buffer[]> {
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw ClickHouseError.of('UNKNOWN_COMPRESSION_METHOD', `Unknown compression method '${encoding}'.`);
  }
  const source = encoding === 'gzip' ? pipeline(req, createGunzip(), () => {}) : req;
  const parts: Buffer[] = [];
  let bytes = 0;
  // Reads on after MAX_BODY_BYTES, up to four times as many, because most clients read no answer while they send.
  for await (const part of source as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes <= MAX_BODY_BYTES) parts.push(part);
    else if (bytes <= 4 * MAX_BODY_BYTES) parts.length = 0;
    else break;
  }
  if (bytes > MAX_BODY_BYTES) {
    throw ClickHouseError.of(
      'QUERY_IS_TOO_LARGE',
      `The body is over ${MAX_BODY_BYTES} bytes; insert in smaller parts.`,
    );
  }
  return parts;
}

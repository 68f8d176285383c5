// One HTTP request -> what the engine is asked: the query from URL and body, parameters, settings, user,
// database and format, as src/Server/HTTPHandler.cpp of ClickHouse reads them.

import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Scope } from './clickhouse-connections.js';
import { ClickHouseError } from './clickhouse-errors.js';
import { readsLaterNative } from './clickhouse-native.js';
import { mayAnalystSet, roleOf, type User, userOf } from './clickhouse-users.js';

/** Bodies are held whole, unpacked: an insert is all of it or nothing, whatever becomes of the connection. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

const DEFAULT_FORMAT = 'TabSeparated';

/** URL parameters that are neither settings nor values of the query; most matter to a server only. */
const NOT_SETTINGS = new Set([
  'query',
  'query_id',
  'database',
  'default_format',
  'user',
  'password',
  'quota_key',
  'stacktrace',
  'buffer_size',
  'wait_end_of_query',
  'compress',
  'decompress',
  'client_protocol_version',
  'enable_http_compression',
  // A request is a session of its own: a statement that only reads has no use for one, and the others come alone.
  'session_id',
  'session_timeout',
  'session_check',
]);

export interface Query {
  readonly scope: Scope;
  readonly queryId: string | undefined;
  /** The query of the URL; the body goes on after it. */
  readonly sql: string;
  readonly body: readonly Buffer[];
  readonly isInsert: boolean;
  /** Format of the answer. */
  readonly format: string;
  /** In ClickHouse's own compression. */
  readonly framed: boolean;
  /** For a client that reads Native of a later revision. */
  readonly laterNative: boolean;
  readonly gzip: boolean;
}

/** @throws ClickHouseError */
export async function readQuery(req: IncomingMessage, url: URL, servicePassword: string): Promise<Query> {
  const user = authenticate(req, url.searchParams, servicePassword);
  const role = roleOf(user);
  const given = url.searchParams;
  const header = (name: string) => req.headers[name]?.toString();
  refuseUnsupported(given, header('content-type'));

  const sql = given.get('query') ?? '';
  const body = req.method === 'POST' ? await readBody(req) : [];
  // The statement ends where an INSERT's data begins, and that is near the beginning.
  const statement = withoutComments(`${sql}\n${beginning(body)}`);
  const isInsert = /^insert\b/i.test(statement);
  if (isInsert && /^insert\b[^'"`]*\bfrom\s+input\s*\(/i.test(statement)) {
    // chDB answers that all is well, and stores nothing.
    throw ClickHouseError.of(
      'NOT_IMPLEMENTED',
      'INSERT … SELECT FROM input() is not supported by the embedded ClickHouse.',
    );
  }
  if (isInsert && role !== 'service')
    throw ClickHouseError.of('ACCESS_DENIED', `Not enough privileges: ${role} may not run INSERT.`);
  if (isInsert && req.method !== 'POST') {
    throw ClickHouseError.of('READONLY', 'Cannot execute query in readonly mode: an INSERT needs POST.');
  }

  const settings: [string, string][] = [];
  const params: [string, string][] = [];
  for (const [name, value] of given) {
    if (name.startsWith('param_')) params.push([name.slice('param_'.length), value]);
    else if (name === 'readonly' || name === '' || NOT_SETTINGS.has(name)) continue;
    else if (role === 'analyst' && !mayAnalystSet(name))
      throw ClickHouseError.of('ACCESS_DENIED', `The user analyst may not change the setting '${name}'.`);
    else settings.push([name, value]);
  }
  const preset = header('x-clickhouse-format') ?? given.get('default_format') ?? DEFAULT_FORMAT;
  const format = isInsert ? preset : (formatClause(statement) ?? preset);
  return {
    scope: {
      user,
      database: header('x-clickhouse-database') ?? given.get('database') ?? undefined,
      settings,
      params,
      readonly: readonlyOf(given.getAll('readonly'), role === 'analyst' ? 1 : req.method === 'POST' ? 0 : 2),
    },
    queryId: given.get('query_id') ?? header('x-clickhouse-query-id'),
    sql,
    body,
    isInsert,
    format,
    framed: isFramed(req),
    laterNative: readsLaterNative(format, given.get('client_protocol_version')),
    gzip: given.get('enable_http_compression') === '1' && /\bgzip\b/.test(header('accept-encoding') ?? ''),
  };
}

/** Also of a request that can't be read. */
export function isFramed({ url = '' }: IncomingMessage): boolean {
  return /[?&]compress=1(&|$)/.test(url);
}

/** @throws ClickHouseError where no user has these credentials. */
function authenticate(req: IncomingMessage, given: URLSearchParams, servicePassword: string): User {
  const [, basic] = /^Basic (.+)$/i.exec(req.headers.authorization ?? '') ?? [];
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

/** ClickHouse's setting `readonly`, from the loosest to the tightest. */
const TIGHTNESS = [0, 2, 1] as const;
type Tightness = (typeof TIGHTNESS)[number];

/** The tightest of what was asked for and what it is at least. @throws ClickHouseError where a value is none of these. */
function readonlyOf(asked: readonly string[], atLeast: Tightness): Tightness {
  const all = asked.map((text) => {
    const value = TIGHTNESS.find((one) => String(one) === text);
    if (value === undefined) throw ClickHouseError.of('BAD_ARGUMENTS', 'readonly must be 0, 1 or 2.');
    return value;
  });
  return [...all, atLeast].reduce((a, b) => (TIGHTNESS.indexOf(b) > TIGHTNESS.indexOf(a) ? b : a));
}

function refuseUnsupported(given: URLSearchParams, contentType = ''): void {
  const lacks = (what: string) =>
    ClickHouseError.of('NOT_IMPLEMENTED', `${what} is not supported by the embedded ClickHouse.`);
  if (given.get('decompress') === '1') throw lacks("ClickHouse's own compression of a request (decompress)");
  if (contentType.startsWith('multipart/form-data')) throw lacks('External data in a form');
  if (given.has('role')) throw lacks('role');
}

/** Its parts as they came. */
async function readBody(req: IncomingMessage): Promise<Buffer[]> {
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw ClickHouseError.of('UNKNOWN_COMPRESSION_METHOD', `Unknown compression method '${encoding}'.`);
  }
  const source = encoding === 'gzip' ? pipeline(req, createGunzip(), () => {}) : req;
  const parts: Buffer[] = [];
  let bytes = 0;
  // A body that is too large is read all the same, up to a point: a client does not read an answer while it sends.
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

function beginning(parts: readonly Buffer[]): string {
  const taken: Buffer[] = [];
  let left = 64 * 1024;
  for (const part of parts) {
    if (left <= 0) break;
    taken.push(part.subarray(0, left));
    left -= part.length;
  }
  return Buffer.concat(taken).toString();
}

function withoutComments(sql: string): string {
  let rest = sql.trimStart();
  for (;;) {
    const comment = /^(--[^\n]*(\n|$)|\/\*[\s\S]*?\*\/)/.exec(rest)?.[0];
    if (comment === undefined) return rest;
    rest = rest.slice(comment.length).trimStart();
  }
}

/** The name after a query's last FORMAT. */
function formatClause(statement: string): string | undefined {
  return /\bFORMAT\s+(\w+)\s*(SETTINGS\s[^;]*)?[;\s]*$/i.exec(statement)?.[1];
}

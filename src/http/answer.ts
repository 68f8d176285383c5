// Turns errors into answers, and writes answers with CORS headers.

import type { HttpResponse } from 'uWebSockets.js';
import { STATUS_CODES } from 'node:http';
import { ERRORS, type Issue, type ServiceError } from '../errors.js';
import type { Access } from './access.js';
import type { ExchangeContext } from './exchange-context.js';
import type { Answer, TextStream } from './operation.js';
import type { PendingAnswer, PendingBytes } from './pending-bytes.js';
import { pump } from './pump.js';

/** JSON of fewer bytes is written without checking back-pressure: rate limits bound the unread answers. */
const SMALL_BYTES = 4 * 1024;
/** An answer of more bytes counts as several requests, and is refused while too many bytes are unread. */
export const LARGE_BYTES = 16 * 1024;

// One writeHeader writes all common headers. uWebSockets.js doesn't check values: never add a caller's value unchecked.
const ANY_TYPE = '\r\nx-content-type-options: nosniff\r\nx-request-id: ';
const JSON_TYPE = `application/json\r\ncache-control: no-store${ANY_TYPE}`;
const NO_TYPE = 'nosniff\r\nx-request-id: ';

const REQUEST_HEADERS = 'Content-Type, X-API-Key, Idempotency-Key, X-Request-Id';
const EXPOSED_HEADERS = 'X-Request-Id, Retry-After';
const MAX_AGE = '7200';

export interface Recipient {
  readonly id: string;
  readonly head: { readonly origin: string };
  readonly isHead: boolean;
  readonly mustClose: boolean;
  readonly closesConnection: boolean;
  held: PendingAnswer | undefined;
  onPart(bytes: number): void;
  onCut(error: Error): void;
}

export function errorAnswer(
  { code, message, issues, retryAfterS }: ServiceError,
  allow: string | undefined,
): Answer {
  const { status, retryable } = ERRORS[code];
  const headers: Record<string, string> = {};
  if (retryable) headers['retry-after'] = String(retryAfterS);
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (allow !== undefined) headers['allow'] = allow;
  const body: { error: string; code: string; issues?: readonly Issue[] } = { error: message, code };
  if (issues !== undefined) body.issues = issues;
  return { status: `${status} ${STATUS_CODES[status]}`, headers, body: JSON.stringify(body) };
}

export function largeBytes(answer: string | Answer): number {
  const body = typeof answer === 'string' ? answer : answer.body;
  if (typeof body !== 'string' || body.length < LARGE_BYTES) return 0;
  return Buffer.byteLength(body);
}

export function streamIn(answer: string | Answer | undefined): TextStream | undefined {
  const body = typeof answer === 'object' ? answer.body : undefined;
  return typeof body === 'object' && Symbol.asyncIterator in body ? body : undefined;
}

export function writeAnswer(
  res: HttpResponse,
  { access, pending }: Pick<ExchangeContext, 'access' | 'pending'>,
  answer: string | Answer,
  to: Recipient,
): void {
  let body: Answer['body'];
  if (typeof answer === 'string') {
    res.writeHeader('content-type', JSON_TYPE + to.id);
    body = answer;
  } else {
    const { status, type, headers } = answer;
    if (status !== undefined) res.writeStatus(status);
    if (answer.body === undefined) res.writeHeader('x-content-type-options', NO_TYPE + to.id);
    else res.writeHeader('content-type', (type === undefined ? JSON_TYPE : type + ANY_TYPE) + to.id);
    for (const name in headers) res.writeHeader(name, headers[name] as string);
    body = answer.body;
  }
  writeCors(access, res, to.head.origin);
  const { closesConnection, isHead } = to;
  if (typeof body === 'object' && Symbol.asyncIterator in body) {
    if (closesConnection) res.writeHeader('connection', 'close');
    if (isHead) {
      body.close();
      res.endWithoutBody();
    } else to.held = pump(res, body, pending, to);
    return;
  }
  const isSmall = typeof answer === 'string' && answer.length < SMALL_BYTES;
  const isLast = closesConnection && body !== undefined && body.length < LARGE_BYTES;
  if (to.mustClose || (!isHead && (isSmall || isLast))) {
    // With `closesConnection` uWebSockets.js writes the header itself.
    res.end(isHead ? '' : body, closesConnection);
    return;
  }
  if (closesConnection) res.writeHeader('connection', 'close');
  if (body !== undefined && isHead) res.writeHeader('content-length', `${Buffer.byteLength(body)}`);
  // uWebSockets.js does not answer if endWithoutBody has any argument.
  if (body === undefined || isHead) res.endWithoutBody();
  else to.held = endCounted(res, body, pending);
}

/** `end` would copy the unread part for each slow reader. With `tryEnd`, the readers of a file share it. */
function endCounted(
  res: HttpResponse,
  body: string | Uint8Array,
  pending: PendingBytes,
): PendingAnswer | undefined {
  const isText = typeof body === 'string';
  const bytes = isText ? Buffer.byteLength(body) : body.length;
  const [isTaken] = res.tryEnd(body, bytes);
  if (isTaken) return undefined;
  const own = isText ? bytes : 0;
  if (!pending.makeRoom(own)) return void res.close();
  const held = pending.hold(own, () => res.close());
  const rest = isText ? Buffer.from(body) : body;
  res.onWritable((sent) => {
    held.taken = sent;
    const [isAllTaken, isDone] = res.tryEnd(rest.subarray(sent), bytes);
    if (isDone) pending.release(held);
    return isAllTaken;
  });
  return held;
}

export function writePreflight(
  res: HttpResponse,
  access: Access,
  methods: string,
  { id, head: { origin }, closesConnection }: Pick<Recipient, 'id' | 'head' | 'closesConnection'>,
): void {
  res.writeStatus('204 No Content').writeHeader('x-request-id', id);
  writeCors(access, res, origin);
  res.writeHeader('allow', methods);
  if (access.isAllowedOrigin(origin)) {
    res.writeHeader('access-control-allow-methods', methods);
    res.writeHeader('access-control-allow-headers', REQUEST_HEADERS);
    res.writeHeader('access-control-max-age', MAX_AGE);
  }
  if (closesConnection) res.writeHeader('connection', 'close');
  res.endWithoutBody();
}

function writeCors(access: Access, res: HttpResponse, origin: string): void {
  if (!access.hasOrigins) return;
  res.writeHeader('vary', 'Origin');
  if (!access.isAllowedOrigin(origin)) return;
  res.writeHeader('access-control-allow-origin', origin);
  res.writeHeader('access-control-expose-headers', EXPOSED_HEADERS);
}

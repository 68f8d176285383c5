// Writes an answer to uWebSockets.js, inside its cork.

import type { HttpResponse } from 'uWebSockets.js';
import type { Access } from './access.js';
import { writeCors } from './cors.js';
import type { Answer } from './operation.js';

/** Bytes; from here on an answer may be more than its reader takes at once. */
const SHARED_BYTES = 64 * 1024;

// What all answers say goes along with the type: a call of writeHeader takes 0.17 us, whatever its length, and
// uWebSockets.js sends a value as it is given. (So nothing that a caller sent may become one unchecked.) The
// request's id comes last.
const ANY_TYPE = '\r\nx-content-type-options: nosniff\r\nx-request-id: ';
const JSON_TYPE = `application/json\r\ncache-control: no-store${ANY_TYPE}`;

/** What a request says of how it is answered. */
export interface Recipient {
  readonly id: string;
  readonly head: { readonly origin: string };
  /** HEAD: the answer tells the length of its body but must not have one. */
  readonly isHead: boolean;
  /** Whether the connection ends with the answer. */
  readonly closes: boolean;
  /** Whether it does so because the rest of the request is not read. */
  readonly leavesRest: boolean;
  /** Told true when an answer is larger than what its reader takes at once, and false when all of it was taken. */
  onReading(isReading: boolean): void;
}

/** @param answer a text is JSON with status 200 */
export function writeAnswer(res: HttpResponse, access: Access, answer: string | Answer, to: Recipient): void {
  let body: Answer['body'];
  if (typeof answer === 'string') {
    res.writeHeader('content-type', JSON_TYPE + to.id);
    body = answer;
  } else {
    const { status, type, headers } = answer;
    if (status !== undefined) res.writeStatus(status);
    res.writeHeader('content-type', (type === undefined ? JSON_TYPE : type + ANY_TYPE) + to.id);
    for (const name in headers) res.writeHeader(name, headers[name] as string);
    body = answer.body;
  }
  writeCors(access, res, to.head.origin);
  const { closes, isHead } = to;
  if (to.leavesRest || (body !== undefined && !isHead && body.length < SHARED_BYTES)) {
    // It says so, too, and ends the connection itself: what follows on it must not be read.
    res.end(isHead ? '' : body, closes);
    return;
  }
  if (closes) res.writeHeader('connection', 'close');
  if (body !== undefined && isHead) res.writeHeader('content-length', `${Buffer.byteLength(body)}`);
  // With any argument, endWithoutBody of uWebSockets.js does not answer.
  if (body === undefined || isHead) res.endWithoutBody();
  else endShared(res, typeof body === 'string' ? Buffer.from(body) : body, to);
}

/**
 * uWebSockets.js would copy what a slow reader has not taken yet; this way all readers of a file share it, and it is
 * known when they have it. (One that is told to close its connection does so by itself.)
 */
function endShared(res: HttpResponse, body: Uint8Array, to: Recipient): void {
  const [isTaken] = res.tryEnd(body, body.length);
  if (isTaken) return;
  to.onReading(true);
  res.onWritable((sent) => {
    const [isAllTaken, isDone] = res.tryEnd(body.subarray(sent), body.length);
    if (isDone) to.onReading(false);
    return isAllTaken;
  });
}

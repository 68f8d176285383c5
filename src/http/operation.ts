// What the API is made of: operations, and what they get to see of a request.

import type { ServiceError } from '../errors.js';
import type { Gate } from '../identity/guests.js';
import type { Caller, Subject } from './access.js';
import type { OperationDoc } from './operation-doc.js';
import type { Query } from './query.js';

export interface Answer {
  /** `200 OK` where absent. */
  readonly status?: string;
  /** application/json where absent. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent where the status has none, like 304. */
  readonly body?: string | Uint8Array;
}

/** What `handle` returns where it tells the request its answer by itself, now or later. */
export const LATER = undefined;

/** One row of the API: what a method on a path does. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** With at most one `:parameter`. */
  readonly path: string;
  readonly subject: Subject;
  /** Bytes of body that are taken; 0: the operation reads none. */
  readonly maxBody: number;
  /** Whether its JSON may come as text/plain, which a page of any origin may send without asking (no CORS preflight). */
  readonly takesText?: true;
  /** Whether it wants the body's bytes instead of parsed JSON. */
  readonly wantsBytes?: true;
  /** Headers that it wants to see beside the fields of Head, in lower case. */
  readonly headers?: readonly string[];
  /** As how many requests one counts for RATE_LIMIT, by its parsed body, which is not checked yet; 1 where absent. */
  weight?(body: unknown): number;
  readonly doc: OperationDoc;
  /** Refuses, by a ServiceError, what the head alone shows to be wrong, so that no body is read for it. */
  admit?(request: Request): void;
  /** A text is an answer of JSON. */
  handle(request: Request): Promise<string | Answer> | string | Answer | typeof LATER;
  /** An error as callers of this operation see it, once it is known who calls; JSON where absent. */
  readonly answerError?: (error: ServiceError, request: Request) => Answer;
}

/** A request as an operation sees it; whatever it tells was copied while uWebSockets.js lent its own. */
export interface Request {
  readonly caller: Caller;
  /** What stands for the `:parameter` of the path; empty where it has none. */
  readonly parameter: string;
  /** Parsed JSON, while `handle` runs; undefined where there was no body, or the operation wanted bytes. */
  readonly body: unknown;
  /** The body, for an operation that wants bytes. */
  readonly bytes: Buffer | undefined;
  /** Decoded parameters; one that was repeated has all its values. */
  query(): Query;
  /** One of the headers that the operation named; empty where absent. */
  header(name: string): string;
  /** Whether one of the headers that the operation named was sent without a value. */
  hasEmptyHeader(name: string): boolean;
  /** Where a new visitor of this caller has to pass; undefined where none has. */
  readonly gate: Gate | undefined;
  answer(answer: string | Answer): void;
  fail(error: Error): void;
}

// What the API is made of: operations, and what they get to see of a request.

import type { HttpRequest } from 'uWebSockets.js';
import type { Caller, Subject } from './access.js';
import type { OperationDoc } from './operation-doc.js';
import { parseQuery, type Query } from './query.js';

export interface Answer {
  /** `200 OK` where absent. */
  readonly status?: string;
  /** application/json where absent. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent where the status has none, like 304. */
  readonly body?: string | Uint8Array;
}

/** One row of the API: what a method on a path does. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** With at most one `:parameter`. */
  readonly path: string;
  readonly subject: Subject;
  /** Bytes of body that are taken; 0: the operation reads none. */
  readonly maxBody: number;
  /** Whether it wants the body's bytes instead of parsed JSON. */
  readonly wantsBytes?: true;
  /** Headers that it wants to see, in lower case. */
  readonly headers?: readonly string[];
  readonly doc: OperationDoc;
  /** A text is an answer of JSON. */
  handle(request: Request): Promise<string | Answer> | string | Answer;
}

const NONE: readonly string[] = [];

/** A request; made while uWebSockets.js still lends its own, so everything that is wanted later is copied. */
export class Request {
  readonly caller: Caller;
  /** What stands for the `:parameter` of the path; empty where it has none. */
  readonly parameter: string;
  /** Parsed JSON; undefined where there was no body, or the operation wanted bytes. */
  body: unknown;
  /** The body, for an operation that wants bytes. */
  bytes: Buffer | undefined;
  readonly #rawQuery: string;
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  constructor({ path, headers = NONE }: Operation, req: HttpRequest, rawQuery: string, caller: Caller) {
    this.caller = caller;
    this.parameter = path.includes(':') ? (req.getParameter(0) ?? '') : '';
    this.#rawQuery = rawQuery;
    this.#names = headers;
    this.#values = headers.length === 0 ? NONE : headers.map((name) => req.getHeader(name));
  }

  /** Decoded parameters; one that was repeated has all its values. */
  query(): Query {
    return parseQuery(this.#rawQuery);
  }

  /** One of the headers that the operation named; empty where absent. */
  header(name: string): string {
    return this.#values[this.#names.indexOf(name)] ?? '';
  }
}

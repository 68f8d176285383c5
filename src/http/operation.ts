// What the API is made of: one row for each operation, what it gets to see of a request, and what /openapi.json says of it.

import type { ErrorCode, ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { NamedIdentity } from '../validation/requests.js';
import type { AccessGroup, Caller } from './access.js';
import type { Head } from './head.js';
import type { Query } from './query.js';

/** Bytes of a request's body. */
export const MAX_BODY = 64 * 1024;
/** Bytes of an event's payload, or an item's properties, as compact JSON. */
export const MAX_PAYLOAD = 16 * 1024;

export interface Answer {
  /** `200 OK` where absent. */
  readonly status?: string;
  /** application/json where absent. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent where the status has none, like 304. */
  readonly body?: string | Uint8Array | TextStream;
}

/** A body of any length, made as its reader takes it. Where iterating throws, the connection is cut. */
export interface TextStream extends AsyncIterable<string> {
  /** Called once it is not read any more, also where it was not begun. */
  close(): void;
}

/** What `handle` returns where it calls `answer` or `fail` of the request by itself, now or later. */
export const LATER = undefined;

/** One row of the API: what a method on a path does. */
export interface Operation<Input = unknown> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** With at most one `:parameter`. */
  readonly path: string;
  readonly accessGroup: AccessGroup;
  /** Bytes of body that are taken; 0: the operation reads none. */
  readonly maxBody: number;
  /** Whether its JSON may come as text/plain, which a page of any origin may send without asking (no CORS preflight). */
  readonly takesText?: true;
  /** Whether it wants the body's bytes instead of parsed JSON. */
  readonly wantsBytes?: true;
  /** Whether it only reads a wishlist. Whether the session belongs to a customer is then asked last: see Exchange. */
  readonly onlyReads?: true;
  /** Headers that it wants to see beside the fields of Head, in lower case. */
  readonly headers?: readonly string[];
  readonly doc: OperationDoc;
  /** Refuses, by a ServiceError, what the head alone shows to be wrong, so that no body is read for it. */
  admit?(request: Request): void;
  /** As how many requests one counts for RATE_LIMIT, by its parsed body, which is not checked yet; 1 or more, and 1 where absent. */
  weight?(body: unknown): number;
  /**
   * Checks what was sent. The exchange lets the caller act for an `identity` in what this returns, or refuses the request.
   * @param body parsed JSON, or bytes; undefined where there was none
   * @throws ServiceError
   */
  read?(body: unknown, request: Request): Input;
  /** A text is an answer of JSON. */
  handle(input: Input, request: Request): Promise<string | Answer> | string | Answer | typeof LATER;
  /** An error as callers of this operation see it, once it is known who calls; JSON where absent. */
  readonly answerError?: (error: ServiceError, request: Request) => Answer;
  /** Media types of what `answerError` makes. */
  readonly errorTypes?: readonly string[];
}

/** A row whose `handle` takes what its `read` returns. */
export function operation<Input>(row: Operation<Input>): Operation {
  return row;
}

/** A request as an operation sees it; all of it was copied while uWebSockets.js lent its own. */
export interface Request {
  readonly caller: Caller;
  /** For which the caller acts: the `identity` that `read` returned, where that is checked. */
  readonly identity: Identity;
  readonly head: Pick<Head, 'userAgent'>;
  /** Whether it is answered without the body. */
  readonly isHead: boolean;
  /** What stands for the `:parameter` of the path; empty where it has none. */
  readonly parameter: string;
  /** Decoded parameters; one that was repeated has all its values. */
  query(): Query;
  /** One of the headers that the operation named; empty where absent. */
  header(name: string): string;
  /** Whether one of the headers that the operation named was sent without a value. */
  hasEmptyHeader(name: string): boolean;
  /** For an operation that names several identities. @throws ServiceError where the caller may not act for this one */
  actFor(named: NamedIdentity): Identity;
  answer(answer: string | Answer): void;
  fail(error: Error): void;
}

/** The groups that operations are shown in. */
export const TAGS = {
  Visits: 'Counts of product page views',
  Wishlist: "A visitor's items",
  Sharing: 'Share links and what is behind them',
  Events: 'Wishlist events as a client tells them',
  Profiles: 'Who visitors are',
  Settings: 'What the shop has switched on',
  Products: 'Prices and stock as they are now',
  Receivers: 'Where events go out to',
  Webhooks: 'What Shopify delivers',
  Storefront: "For a shop's pages",
  Operating: 'Health, figures and documentation of the service',
} as const;

/** What an operation says about itself. Examples are sent by the tests, so they work. */
export interface OperationDoc {
  /** operationId: the name of its function in generated clients. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  /** Errors beyond those that its access group, path, headers and body imply. */
  readonly refusals?: readonly ErrorCode[];
  /** Schema and example of the JSON body. */
  readonly body?: { readonly schema: object; readonly example: unknown; readonly optional?: true };
  /** Schema of the query, an object with a property for each parameter, and an example of it. */
  readonly query?: { readonly schema: QuerySchema; readonly example: Readonly<Record<string, string>> };
  /** Schema of the answer to a success; absent where it is not JSON. */
  readonly answer?: object;
  /** Answers that are not JSON, by status, with their media types. */
  readonly pages?: Readonly<Record<number, PageDoc>>;
}

interface PageDoc {
  readonly description: string;
  readonly types: readonly string[];
  /** Headers of it beside those of every answer, by their names in src/http/openapi.ts. */
  readonly headers?: readonly string[];
}

interface QuerySchema {
  readonly required?: readonly string[];
  readonly properties: Readonly<Record<string, object>>;
}

// The types of the API: an operation, the request that it gets, and its documentation in /openapi.json.

import type { ErrorCode, ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { NamedIdentity } from '../validation/requests.js';
import type { AccessGroup, Caller } from './access.js';
import type { Head } from './head.js';
import type { Query } from './query.js';

/** Maximum bytes of a request's body. */
export const MAX_BODY = 64 * 1024;
/** Maximum bytes of an event's payload, or an item's properties, as compact JSON. */
export const MAX_PAYLOAD = 16 * 1024;

export interface Answer {
  /** `200 OK` if absent. */
  readonly status?: string;
  /** application/json if absent. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent for a status without a body, like 304. */
  readonly body?: string | Uint8Array | TextStream;
}

/** A streamed body. If iterating throws, the connection is cut. */
export interface TextStream extends AsyncIterable<string> {
  /** Called when no more is read, even if iterating never began. */
  close(): void;
}

/** Returned by a `handle` that calls `answer` or `fail` of the request itself, now or later. */
export const LATER = undefined;

/** One method of a path. */
export interface Operation<Input = unknown> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** With at most one `:parameter`. */
  readonly path: string;
  readonly accessGroup: AccessGroup;
  /** Maximum bytes of the body; 0: no body is read. */
  readonly maxBody: number;
  /** JSON may come as text/plain, which a page of any origin may send without a CORS preflight. */
  readonly takesText?: true;
  /** `read` gets the body's bytes instead of parsed JSON. */
  readonly wantsBytes?: true;
  /** It only reads a wishlist; see Exchange.#handleUnlessLinked. */
  readonly onlyReads?: true;
  /** Further headers that it needs, in lower case. */
  readonly headers?: readonly string[];
  readonly doc: OperationDoc;
  /** Checks the head before a body is read. @throws ServiceError */
  admit?(request: Request): void;
  /** Number of requests that one counts for RATE_LIMIT; 1 if absent. @param body parsed, not validated */
  weight?(body: unknown): number;
  /**
   * Validates the input. The exchange checks that the caller may act for an `identity` in the result.
   * @param body parsed JSON, or bytes; undefined if there was none
   * @throws ServiceError
   */
  read?(body: unknown, request: Request): Input;
  /** A string is an answer of JSON. */
  handle(input: Input, request: Request): Promise<string | Answer> | string | Answer | typeof LATER;
  /** Its own answers to errors after authentication; JSON if absent. */
  readonly answerError?: (error: ServiceError, request: Request) => Answer;
  /** Media types of `answerError`. */
  readonly errorTypes?: readonly string[];
}

/** Checks the types: `handle` takes the result of `read`. */
export function operation<Input>(row: Operation<Input>): Operation {
  return row;
}

/** A request, copied from uWebSockets.js: valid at any time. */
export interface Request {
  readonly caller: Caller;
  /** The `identity` in the result of `read`, checked. */
  readonly identity: Identity;
  readonly head: Pick<Head, 'userAgent'>;
  /** The method is HEAD. */
  readonly isHead: boolean;
  /** The `:parameter` of the path; '' if it has none. */
  readonly parameter: string;
  /** Decoded parameters, with all values of a repeated one. */
  query(): Query;
  /** A header named in `headers`; '' if absent. */
  header(name: string): string;
  /** A header named in `headers` was sent without a value. */
  hasEmptyHeader(name: string): boolean;
  /** For an operation with several identities. @throws ServiceError if the caller may not act for this one */
  actFor(named: NamedIdentity): Identity;
  answer(answer: string | Answer): void;
  fail(error: Error): void;
}

/** Groups in the documentation. */
export const TAGS = {
  Visits: 'Counts of product page views',
  Wishlist: "A visitor's items",
  Sharing: 'Share links and shared wishlists',
  Events: 'Wishlist events reported by a client',
  Profiles: 'Visitors and their data',
  Settings: "The shop's settings",
  Products: 'Current prices and stock',
  Receivers: 'Destinations of outgoing events',
  Webhooks: "Shopify's webhooks",
  Storefront: "For a shop's pages",
  Operating: 'Health, figures and documentation of the service',
} as const;

/** Documentation of an operation. Tests send its examples. */
export interface OperationDoc {
  /** operationId: the name of its function in generated clients. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  /** Errors other than those implied by access group, path, headers and body. */
  readonly refusals?: readonly ErrorCode[];
  /** Schema and example of the JSON body. */
  readonly body?: { readonly schema: object; readonly example: unknown; readonly optional?: true };
  /** Schema of the query, an object with a property for each parameter, and an example. */
  readonly query?: { readonly schema: QuerySchema; readonly example: Readonly<Record<string, string>> };
  /** Schema of a successful answer; absent if it is not JSON. */
  readonly answer?: object;
  /** Answers that are not JSON, by status, with their media types. */
  readonly pages?: Readonly<Record<number, PageDoc>>;
}

interface PageDoc {
  readonly description: string;
  readonly types: readonly string[];
  /** Further headers, by their names in src/http/openapi.ts. */
  readonly headers?: readonly string[];
}

interface QuerySchema {
  readonly required?: readonly string[];
  readonly properties: Readonly<Record<string, object>>;
}

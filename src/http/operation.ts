// The types of the API: operations, their requests, their documentation.

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
  /** `200 OK` if absent. */
  readonly status?: string;
  /** application/json if absent. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent for a status without a body. */
  readonly body?: string | Uint8Array | TextStream;
}

/** If iterating throws, the connection is cut. */
export interface TextStream extends AsyncIterable<string> {
  /** Called at the end, even if iterating never began. */
  close(): void;
}

/** `handle` calls `answer` or `fail` itself, now or later. */
export const LATER = undefined;

export interface Operation<Input = unknown> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** With at most one `:parameter`. */
  readonly path: string;
  readonly accessGroup: AccessGroup;
  /** Bytes; 0: no body is read. */
  readonly maxBody: number;
  /** JSON may come as text/plain, which needs no CORS preflight. */
  readonly takesText?: true;
  /** `read` gets bytes instead of parsed JSON. */
  readonly wantsBytes?: true;
  /** Only reads a wishlist. */
  readonly onlyReads?: true;
  /** Further headers to keep, in lower case. */
  readonly headers?: readonly string[];
  readonly doc: OperationDoc;
  admit?(request: Request): void;
  /** Requests that it counts for RATE_LIMIT; default 1. @param body parsed, not validated */
  weight?(body: unknown): number;
  /**
   * Validates the input. The exchange authorises an `identity` in the result.
   * @param body parsed JSON, or bytes; undefined if absent
   * @throws ServiceError
   */
  read?(body: unknown, request: Request): Input;
  /** A string is JSON. */
  handle(input: Input, request: Request): Promise<string | Answer> | string | Answer | typeof LATER;
  /** Error answers after authentication; JSON if absent. */
  readonly answerError?: (error: ServiceError, request: Request) => Answer;
  readonly errorTypes?: readonly string[];
}

/** Checks that `handle` takes the result of `read`. */
export function operation<Input>(row: Operation<Input>): Operation {
  return row;
}

/** Valid at any time, unlike uWebSockets.js's. */
export interface Request {
  readonly caller: Caller;
  /** From the result of `read`, authorised. */
  readonly identity: Identity;
  readonly head: Pick<Head, 'userAgent'>;
  readonly isHead: boolean;
  readonly parameter: string;
  /** Decoded. */
  query(): Query;
  /** One of the operation's `headers`; '' if absent. */
  header(name: string): string;
  /** One of the operation's `headers` is empty. */
  hasEmptyHeader(name: string): boolean;
  /** @throws ServiceError if the caller may not act for it */
  actFor(named: NamedIdentity): Identity;
  answer(answer: string | Answer): void;
  fail(error: Error): void;
}

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

/** Tests send the examples. */
export interface OperationDoc {
  /** The function's name in generated clients. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  /** Beyond those implied by access group, path, headers and body. */
  readonly refusals?: readonly ErrorCode[];
  /** JSON. */
  readonly body?: { readonly schema: object; readonly example: unknown; readonly optional?: true };
  /** Has a property for each parameter. */
  readonly query?: { readonly schema: QuerySchema; readonly example: Readonly<Record<string, string>> };
  /** Absent if it is not JSON. */
  readonly answer?: object;
  /** Answers that are not JSON, by status. */
  readonly pages?: Readonly<Record<number, PageDoc>>;
}

interface PageDoc {
  readonly description: string;
  readonly types: readonly string[];
  /** By their names in src/http/openapi.ts. */
  readonly headers?: readonly string[];
}

interface QuerySchema {
  readonly required?: readonly string[];
  readonly properties: Readonly<Record<string, object>>;
}

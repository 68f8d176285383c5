// The types of operations, their requests and documentation.

import type { ErrorCode, ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { NamedIdentity } from '../validation/requests.js';
import type { AccessGroup, Caller } from './access.js';
import type { Head } from './head.js';
import type { Query } from './query.js';

export const MAX_BODY = 64 * 1024;
/** Maximum bytes of an event's payload or an item's properties, as compact JSON. */
export const MAX_PAYLOAD = 16 * 1024;

export interface Answer {
  readonly status?: string;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | TextStream;
}

export interface TextStream extends AsyncIterable<string> {
  /** Called even if no iteration has begun. */
  close(): void;
}

/** The result of `handle` if it calls `answer` or `fail` itself, now or later. */
export const LATER = undefined;

export interface Operation<Input = unknown> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  readonly path: string;
  readonly accessGroup: AccessGroup;
  readonly maxBody: number;
  /** If set, JSON may come as text/plain, which needs no CORS preflight. */
  readonly takesText?: true;
  readonly wantsBytes?: true;
  readonly onlyReads?: true;
  readonly headers?: readonly string[];
  /** For a batch, whose results say what to repeat. Webhooks ignore an Idempotency-Key, too; see idempotency.ts. */
  readonly ignoresKey?: true;
  readonly doc: OperationDoc;
  admit?(request: Request): void;
  /** @param body not validated @returns how many requests it counts as for RATE_LIMIT; by default 1 */
  weight?(body: unknown): number;
  /** The exchange authorises an `identity` in the result. @param body undefined if absent @throws ServiceError */
  read?(body: unknown, request: Request): Input;
  handle(input: Input, request: Request): Promise<string | Answer> | string | Answer | typeof LATER;
  readonly answerError?: (error: ServiceError, request: Request) => Answer;
  readonly errorTypes?: readonly string[];
}

/** Checks that `handle` takes the result of `read`. */
export function operation<Input>(row: Operation<Input>): Operation {
  return row;
}

export interface Request {
  readonly caller: Caller;
  readonly identity: Identity;
  readonly head: Pick<Head, 'userAgent'>;
  readonly isHead: boolean;
  readonly parameter: string;
  query(): Query;
  /** Returns one of the operation's `headers`; '' if absent. */
  header(name: string): string;
  hasEmptyHeader(name: string): boolean;
  actFor(named: NamedIdentity): Identity;
  answer(answer: string | Answer): void;
  fail(error: Error): void;
}

/** Tags of the core's operations; extras have tags of their own. */
export const TAGS = {
  Visits: 'Counts of product page views',
  Wishlist: "A visitor's items",
  Sharing: 'Share links and shared wishlists',
  Events: 'Wishlist events reported by a client',
  Profiles: 'Visitors and their data',
  Settings: "The shop's settings",
  Webhooks: "Shopify's webhooks",
  Operating: 'Health, figures and documentation of the service',
} as const;

/** An operation's entry in /openapi.json. Tests send the examples. */
export interface OperationDoc {
  /** The function's name in generated clients. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  /** Error codes of this operation. codesOf() in openapi.ts adds the common codes. */
  readonly refusals?: readonly ErrorCode[];
  readonly body?: { readonly schema: object; readonly example: unknown; readonly optional?: true };
  readonly query?: {
    readonly schema: QuerySchema;
    readonly example: Readonly<Record<string, string | number>>;
  };
  readonly answer?: object;
  readonly answerHeaders?: readonly string[];
  readonly pages?: Readonly<Record<number, PageDoc>>;
}

interface PageDoc {
  readonly description: string;
  readonly types: readonly string[];
  readonly headers?: readonly string[];
}

interface QuerySchema {
  readonly required?: readonly string[];
  readonly properties: Readonly<Record<string, object>>;
}

// Errors with a sentence for people. This file imports nothing, so that every layer can throw them.

/** `path` is a JSON pointer into the body or the query. */
export interface Issue {
  readonly path: string;
  readonly message: string;
}

interface ErrorRow {
  readonly status: number;
  readonly sentence: string;
  readonly retryable: boolean;
}

const MAX_ISSUES = 50;

/** The error table of docs/api.md. */
export const ERRORS = {
  invalid_json: { status: 400, sentence: 'The body is not valid JSON.', retryable: false },
  invalid_request: {
    status: 400,
    sentence: 'The request has fields that are missing or wrong.',
    retryable: false,
  },
  unauthorized: { status: 401, sentence: 'A valid credential is required.', retryable: false },
  forbidden: { status: 403, sentence: 'This credential may not do this.', retryable: false },
  session_belongs_to_customer: {
    status: 403,
    sentence: 'This session belongs to a customer who is not logged in; begin a new one.',
    retryable: false,
  },
  not_found: { status: 404, sentence: 'There is nothing at this path.', retryable: false },
  method_not_allowed: { status: 405, sentence: 'This path does not take this method.', retryable: false },
  too_many_items: {
    status: 409,
    sentence: 'The wishlist is full; remove an item first.',
    retryable: false,
  },
  too_many_products: {
    status: 409,
    sentence: 'This profile counts as many products as it may.',
    retryable: false,
  },
  idempotency_key_reused: {
    status: 422,
    sentence: 'This Idempotency-Key was used for another request.',
    retryable: false,
  },
  request_timeout: { status: 408, sentence: 'The body did not arrive in 10 s.', retryable: false },
  payload_too_large: { status: 413, sentence: 'The body is too large.', retryable: false },
  unsupported_media_type: {
    status: 415,
    sentence: 'Content-Type must be application/json or absent, or text/plain for POST /product/visit.',
    retryable: false,
  },
  rate_limited: { status: 429, sentence: 'Too many requests from this caller.', retryable: true },
  internal: { status: 500, sentence: 'Something went wrong on our side.', retryable: false },
  unavailable: {
    status: 503,
    sentence: 'The store does not answer; send the request again.',
    retryable: true,
  },
  overloaded: {
    status: 503,
    sentence: 'Too much is waiting to be stored; send the request again.',
    retryable: true,
  },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERRORS;

export interface ServiceErrorOptions extends ErrorOptions {
  /** Seconds until a retry; by default 1. */
  readonly retryAfterS?: number;
  readonly overload?: Overload;
}

/**
 * The bottleneck: a stream of events, calls waiting for Redis, Redis's `maxmemory`, the event loop, unread answers, or
 * unread bodies.
 */
export type Overload = 'stream' | 'redis' | 'memory' | 'process' | 'readers' | 'bodies';

/** Any other error in a request is a bug, and is answered with 500. */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly issues: readonly Issue[] | undefined;
  readonly retryAfterS: number;
  /** The bottleneck, for operators. It isn't in answers. */
  readonly overload: Overload | undefined;

  constructor(
    code: ErrorCode,
    sentence: string = ERRORS[code].sentence,
    issues?: readonly Issue[],
    options?: ServiceErrorOptions,
  ) {
    // A stack trace costs more than the rest of a refused request.
    const limit = Error.stackTraceLimit;
    if (code !== 'internal') Error.stackTraceLimit = 0;
    super(sentence, options);
    Error.stackTraceLimit = limit;
    this.name = 'ServiceError';
    this.code = code;
    this.issues = issues?.slice(0, MAX_ISSUES);
    this.retryAfterS = options?.retryAfterS ?? 1;
    this.overload = options?.overload;
  }
}

const OVERLOADS: Partial<Record<Overload, string>> = {
  memory: 'Redis is at its maxmemory; send the request again.',
  readers: 'Too many large answers wait for slow readers; send the request again.',
  bodies: 'Too many large bodies arrive at once; send the request again.',
};

export function overloaded(overload: Overload, cause?: Error): ServiceError {
  return new ServiceError('overloaded', OVERLOADS[overload], undefined, { overload, cause });
}

/** A mistake of the operator, which is printed as one sentence without a stack trace. The exit code is 1. */
export class StartupError extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'StartupError';
  }
}

/** A database doesn't answer. Long-running processes wait for it; other commands end. */
export class AwayError extends StartupError {}

// Errors with a sentence for people. This file imports nothing, so that every layer can throw them.

export const ISSUE_PLACES = ['body', 'query', 'header'] as const;

/** `path` is a JSON pointer into the body or the query, or the header's name. */
export interface Issue {
  readonly in: (typeof ISSUE_PLACES)[number];
  readonly path: string;
  readonly message: string;
}

const MAX_ISSUES = 50;

const lasting = (status: number, sentence: string) => ({ status, sentence, retryable: false });
const passing = (status: number, sentence: string) => ({ status, sentence, retryable: true });

/** The error table of docs/api.md. */
export const ERRORS = {
  invalid_json: lasting(400, 'The body is not valid JSON.'),
  invalid_request: lasting(400, 'The request has fields that are missing or wrong.'),
  unauthorized: lasting(401, 'A valid credential is required.'),
  forbidden: lasting(403, 'This credential may not do this.'),
  session_belongs_to_customer: lasting(
    403,
    'This session belongs to a customer who is not logged in; begin a new one.',
  ),
  session_retired: lasting(403, "This session was a customer's who is logged out; begin a new one."),
  not_found: lasting(404, 'There is nothing at this path.'),
  method_not_allowed: lasting(405, 'This path does not take this method.'),
  too_many_items: lasting(409, 'The wishlist is full; remove an item first.'),
  too_many_products: lasting(409, 'This profile counts as many products as it may.'),
  idempotency_key_reused: lasting(422, 'This Idempotency-Key was used for another request.'),
  request_timeout: lasting(408, 'The body did not arrive in 10 s.'),
  payload_too_large: lasting(413, 'The body is too large.'),
  unsupported_media_type: lasting(
    415,
    'Content-Type must be application/json or absent, or text/plain for POST /product/visit.',
  ),
  rate_limited: passing(429, 'Too many requests from this caller.'),
  internal: lasting(500, 'Something went wrong on our side.'),
  unavailable: passing(503, 'The store does not answer; send the request again.'),
  overloaded: passing(503, 'Too much is waiting to be stored; send the request again.'),
};

export type ErrorCode = keyof typeof ERRORS;

export interface ServiceErrorOptions extends ErrorOptions {
  /** Seconds until a retry; by default 1. */
  readonly retryAfterS?: number;
  readonly overload?: Overload;
}

/**
 * The bottleneck: a stream of events, calls waiting for Redis, Redis's `maxmemory`, its replicas, the event loop, unread
 * answers, or unread bodies.
 */
export type Overload = 'stream' | 'redis' | 'memory' | 'replicas' | 'process' | 'readers' | 'bodies';

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

/** Lists `fault` together with the faults that `read` throws. */
export function withOthers(fault: Issue, read: () => unknown): ServiceError {
  const all = [fault];
  try {
    read();
  } catch (error) {
    if (error instanceof ServiceError && error.issues !== undefined) all.push(...error.issues);
  }
  return new ServiceError('invalid_request', undefined, all);
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

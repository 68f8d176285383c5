// Every error that a caller can see: code -> HTTP status, sentence, and whether sending again may help.
// Imports nothing, so that every layer can throw one of these and only src/http/exchange.ts needs to know HTTP.

/** One fault in a request: a JSON pointer into the body (or the query) and what is wrong there. */
export interface Issue {
  readonly path: string;
  readonly message: string;
}

interface ErrorRow {
  readonly status: number;
  readonly sentence: string;
  readonly retryable: boolean;
}

/** The contract's error table. `retryable` errors carry `Retry-After`. */
export const ERRORS = {
  invalid_json: { status: 400, sentence: 'The body is not valid JSON.', retryable: false },
  invalid_request: {
    status: 400,
    sentence: 'The request has fields that are missing or wrong.',
    retryable: false,
  },
  unauthorized: { status: 401, sentence: 'A valid credential is required.', retryable: false },
  forbidden: { status: 403, sentence: 'This credential may not do this.', retryable: false },
  not_found: { status: 404, sentence: 'There is nothing at this path.', retryable: false },
  method_not_allowed: { status: 405, sentence: 'This path does not take this method.', retryable: false },
  request_timeout: { status: 408, sentence: 'The body did not arrive in 10 s.', retryable: false },
  payload_too_large: { status: 413, sentence: 'The body is too large.', retryable: false },
  unsupported_media_type: {
    status: 415,
    sentence: 'Content-Type must be application/json, text/plain or absent.',
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

/** An error with a place in the contract. Anything else that is thrown is a bug and answers 500. */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly issues: readonly Issue[] | undefined;

  constructor(
    code: ErrorCode,
    sentence: string = ERRORS[code].sentence,
    issues?: readonly Issue[],
    options?: ErrorOptions,
  ) {
    super(sentence, options);
    this.name = 'ServiceError';
    this.code = code;
    this.issues = issues;
  }
}

/** A mistake of whoever starts the program: told in one sentence, without a stack trace, exit code 1. */
export class StartupError extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'StartupError';
  }
}

/**
 * What the Lua scripts answer in place of a result. Declared here once; each script's header lists
 * the ones that it uses, and test/redis/scripts.test.ts compares the two.
 */
export const LUA = {
  /** The batch reached Redis after its deadline: nothing was done. */
  EXPIRED: -1,
  /** A newer batch of the same lane was already applied: nothing was done. */
  SUPERSEDED: -2,
  /** The stream of events is at its high-water mark: nothing was appended. */
  FULL: -3,
  /** The shard belongs to a newer epoch: nothing was done. */
  FENCED: -4,
  /** The manifest in Redis is not the one that the caller holds: nothing was done. */
  MANIFEST: -5,
} as const;

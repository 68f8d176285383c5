// What a failed Redis call means: try again, tell the caller 503, or a bug of ours.

import { ServiceError } from '../errors.js';

// Error replies begin with a word in capitals; whatever else ioredis throws is about the connection.
const ERROR_REPLY = /^[A-Z]+ /;
const PASSING_STATE = /^(LOADING|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|READONLY|MOVED|ASK) /;
const REFUSAL = /^(OOM|MISCONF|NOREPLICAS|BUSY|NOAUTH|NOPERM|WRONGPASS) /;

/** Whether the connection or the node went away under a command, or will soon be able to take it. */
export function isPassing(error: Error): boolean {
  return !ERROR_REPLY.test(error.message) || PASSING_STATE.test(error.message);
}

/** Whether nobody answered in time: neither a refusal nor an error reply. */
export function isTimeout(error: Error): boolean {
  return /^(Command timed out|Socket timeout|connect ETIMEDOUT)/.test(error.message);
}

/** The error that a caller sees: `unavailable` where Redis can't or won't, the error itself where we are wrong. */
export function toServiceError(error: Error): Error {
  if (error instanceof ServiceError) return error;
  if (isPassing(error) || REFUSAL.test(error.message)) {
    return new ServiceError('unavailable', undefined, undefined, { cause: error });
  }
  return error;
}

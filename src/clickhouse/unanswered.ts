// Explains a failed start to the operator.

import { certificateFault } from '../certificates.js';
import { AwayError, StartupError } from '../errors.js';
import { errorCode } from './blame.js';

/** Errors that may pass, with their codes from ErrorCodes.cpp. */
const PASSING = new Set([
  159, // TIMEOUT_EXCEEDED
  202, // TOO_MANY_SIMULTANEOUS_QUERIES
  209, // SOCKET_TIMEOUT
  210, // NETWORK_ERROR
  225, // NO_ZOOKEEPER
  236, // ABORTED: shutting down
  241, // MEMORY_LIMIT_EXCEEDED
  242, // TABLE_IS_READ_ONLY: Keeper is away
  243, // NOT_ENOUGH_SPACE
  279, // ALL_CONNECTION_TRIES_FAILED
  999, // KEEPER_EXCEPTION
]);

const UNKNOWN_DATABASE = 81;

/** @returns an AwayError if a later try may succeed */
export function clickHouseStartupError(error: unknown, task: string): StartupError {
  if (error instanceof StartupError) return error;
  const fault = certificateFault(error);
  if (fault !== undefined) return new StartupError(`ClickHouse can't be reached: ${fault}.`);
  const message = (error as Error).message.trim().replace(/\s+/g, ' ').replace(/\.$/, '');
  const code = errorCode(error);
  if (code === 0) return new AwayError(`ClickHouse does not answer: ${message}.`);
  if (code === UNKNOWN_DATABASE) return new AwayError(`ClickHouse: ${message}; \`flush\` makes it.`);
  return PASSING.has(code) ? new AwayError(`${task}: ${message}.`) : new StartupError(`${task}: ${message}.`);
}

// What a failed Redis call means. Three tables, and nothing is guessed: an error that none of them knows is a bug of
// ours and answers 500.
//
//   passing   the connection or the node went away under the command, or will soon take it: sent again
//   refused   Redis answers, and will not do it until an operator acts: 503
//   unknown   WRONGTYPE, a TypeError of ours, …: `internal`

import { certificateFault } from '../certificates.js';
import { AwayError, overloaded, ServiceError, StartupError } from '../errors.js';
import { SilentConnectionError } from './silence.js';

/**
 * The first words of error replies that pass:
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ and redis's server.c
 */
const PASSING_REPLY = /^(LOADING|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|READONLY|MOVED|ASK|UNBLOCKED) /;
const REFUSING_REPLY = /^((OOM|MISCONF|NOREPLICAS|BUSY|NOAUTH|NOPERM|WRONGPASS) |ERR max number of clients)/;
/** What Node says of sockets. */
const SOCKET_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT', // a unix socket that is not there yet
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
]);
/** What ioredis 6 says of connections; it has few classes for it. */
const CONNECTION_MESSAGE = new RegExp(
  `^(${[
    'Connection is closed\\.',
    "Stream isn't writeable and enableOfflineQueue options is false",
    "Cluster isn't ready and enableOfflineQueue options is false",
    'Reached the max retries per request limit',
    'Command aborted due to connection close',
    'Cluster is (ended|disconnected|disconnecting)\\.',
    'Failed to refresh slots cache\\.',
    'None of startup nodes is available',
    'Node is disconnected',
    'Too many Cluster redirections\\.',
    'Connection is (aborted|discarded because a new connection is made)',
    'Redis loading timed out',
  ].join('|')})`,
);

/** What error replies say of a node, for its operator. */
const STATES: Readonly<Record<string, string>> = {
  LOADING: 'Redis is loading its data',
  CLUSTERDOWN: 'the Redis Cluster is down',
  MASTERDOWN: 'Redis is a replica without its master',
  READONLY: 'Redis is a replica and takes no writes',
  OOM: 'Redis has no memory left: maxmemory is reached',
  MISCONF: 'Redis takes no writes, since it cannot save to its disk',
  NOREPLICAS: 'Redis takes no writes, since too few replicas follow it',
  BUSY: 'a script keeps Redis busy',
  NOAUTH: 'Redis wants a password, and REDIS_URL has none',
  WRONGPASS: 'Redis does not accept the user or the password of REDIS_URL',
  NOPERM: 'the user of REDIS_URL lacks a permission; docs/operations.md has what each process needs',
};

/** Why Redis can't be used now, without a full stop. */
export function inWords(error: Error): string {
  if (error instanceof ServiceError) return 'Redis does not answer';
  const fault = certificateFault(error);
  if (fault !== undefined) return `Redis can't be reached: ${fault}`;
  const [first = ''] = error.message.split(' ', 1);
  return STATES[first] ?? error.message.replace(/\.$/, '');
}

/** Whether the connection or the node went away under a command, or will soon be able to take it. */
export function isPassing(error: Error): boolean {
  if (PASSING_REPLY.test(error.message) || error instanceof SilentConnectionError) return true;
  const { code } = error as { code?: unknown };
  return (typeof code === 'string' && SOCKET_CODES.has(code)) || CONNECTION_MESSAGE.test(error.message);
}

/** Whether Redis answers, but will not do it. */
export function isRefused(error: Error): boolean {
  return REFUSING_REPLY.test(error.message);
}

/** Whether Redis takes no writes, and is read. */
export function refusesWrites(error: Error): boolean {
  const { message } = error instanceof ServiceError && error.cause instanceof Error ? error.cause : error;
  return /^(OOM|MISCONF|NOREPLICAS) /.test(message);
}

/** Whether the node is a replica, or became one under the connection. */
export function isReadOnly(error: Error): boolean {
  return /^READONLY /.test(error.message) || /WAIT cannot be used with replica/.test(error.message);
}

/** Where a slot is, by a MOVED or ASK reply; undefined for other errors. */
export function redirectionOf(
  error: Error,
): { readonly kind: 'MOVED' | 'ASK'; readonly slot: number; readonly address: string } | undefined {
  const found = /^(MOVED|ASK) (\d{1,5}) (\S+:\d+)/.exec(error.message);
  if (found === null) return undefined;
  return { kind: found[1] as 'MOVED' | 'ASK', slot: Number(found[2]), address: found[3] as string };
}

/** The error that a caller sees: `unavailable` or, at `maxmemory`, `overloaded` if Redis can't or won't; the error itself if we are wrong. */
export function toServiceError(error: Error): Error {
  if (error instanceof ServiceError) return error;
  if (error.message.startsWith('OOM ')) return overloaded('memory', error);
  if (isPassing(error) || isReadOnly(error) || isRefused(error))
    return new ServiceError('unavailable', undefined, undefined, { cause: error });
  return error;
}

/** What an operator reads of a start that failed. An AwayError if a later try may succeed as things are set. */
export function toStartupError(error: Error): StartupError {
  if (error instanceof StartupError) return error;
  const message = error.message.replace(/\.$/, '');
  if (isPassing(error)) return new AwayError(`Redis does not answer: ${message}.`);
  const words = inWords(error).replace(/^./s, (letter) => letter.toUpperCase());
  // No visitor's data are sent at a start, so the reply may be shown: NOPERM has the command or the key.
  const detail = words === message || certificateFault(error) !== undefined ? '' : ` (${message})`;
  return isRefused(error) && !/^(NOAUTH|NOPERM|WRONGPASS) /.test(error.message)
    ? new AwayError(`${words}${detail}.`)
    : new StartupError(`${words}${detail}.`);
}

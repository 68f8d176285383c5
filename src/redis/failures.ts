// Classifies errors of Redis calls:
//
//   passing   the connection or node failed, or will soon accept the command: retry
//   refused   until an operator acts: 503
//   unknown   WRONGTYPE, a TypeError of ours, …: a bug, 500

import { certificateFault } from '../certificates.js';
import { AwayError, overloaded, ServiceError, StartupError } from '../errors.js';
import { SilentConnectionError } from './silence.js';

/** https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ and redis's server.c */
const PASSING_REPLY = /^(LOADING|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|READONLY|MOVED|ASK|UNBLOCKED) /;
const REFUSING_REPLY = /^((OOM|MISCONF|NOREPLICAS|BUSY|NOAUTH|NOPERM|WRONGPASS) |ERR max number of clients)/;
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
  'ENOENT', // a unix socket that does not exist yet
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
]);
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
    'timeout$', // the reply of CLUSTER SLOTS was late
  ].join('|')})`,
);

const TOO_FEW_REPLICAS = 'Redis has too few replicas; send the request again.';

const STATES: Readonly<Record<string, string>> = {
  LOADING: 'Redis is loading its data',
  CLUSTERDOWN: 'the Redis Cluster is down',
  MASTERDOWN: 'Redis is a replica without its master',
  READONLY: 'Redis is a replica and takes no writes',
  OOM: 'Redis has no memory left: maxmemory is reached',
  MISCONF: 'Redis takes no writes, because it cannot save to its disk',
  NOREPLICAS: 'Redis takes no writes, because it has too few replicas',
  BUSY: 'a script keeps Redis busy',
  NOAUTH: 'Redis wants a password, and REDIS_URL has none',
  WRONGPASS: 'Redis does not accept the user or the password of REDIS_URL',
  NOPERM: 'the user of REDIS_URL lacks a permission; docs/operations.md has what each process needs',
};

/** The error's message, without a full stop. */
export function inWords(error: Error): string {
  if (error instanceof ServiceError) {
    const { cause } = error;
    return cause instanceof Error && isRefused(cause) ? inWords(cause) : 'Redis does not answer';
  }
  const fault = certificateFault(error);
  if (fault !== undefined) return `Redis can't be reached: ${fault}`;
  const [first = ''] = error.message.split(' ', 1);
  return STATES[first] ?? error.message.replace(/\.$/, '');
}

export function isPassing(error: Error): boolean {
  if (PASSING_REPLY.test(error.message) || error instanceof SilentConnectionError) return true;
  const { code } = error as { code?: unknown };
  return (typeof code === 'string' && SOCKET_CODES.has(code)) || CONNECTION_MESSAGE.test(error.message);
}

export function isRefused(error: Error): boolean {
  return REFUSING_REPLY.test(error.message);
}

export function isForbidden(error: Error): boolean {
  return /^(NOAUTH|NOPERM|WRONGPASS) /.test(error.message);
}

export function refusesWrites(error: Error): boolean {
  const { message } = error instanceof ServiceError && error.cause instanceof Error ? error.cause : error;
  return /^(OOM|MISCONF|NOREPLICAS) /.test(message);
}

/** By `min-replicas-to-write`, or by us with REDIS_REPLICAS. */
export function hasTooFewReplicas(error: Error): boolean {
  return /^NOREPLICAS /.test(error.message);
}

export function isReadOnly(error: Error): boolean {
  return /^READONLY /.test(error.message) || /WAIT cannot be used with replica/.test(error.message);
}

export function redirectionOf(
  error: Error,
): { readonly kind: 'MOVED' | 'ASK'; readonly slot: number; readonly address: string } | undefined {
  const found = /^(MOVED|ASK) (\d{1,5}) (\S+:\d+)/.exec(error.message);
  if (found === null) return undefined;
  return { kind: found[1] as 'MOVED' | 'ASK', slot: Number(found[2]), address: found[3] as string };
}

/** A bug's error is returned unchanged. */
export function toServiceError(error: Error): Error {
  if (error instanceof ServiceError) return error;
  if (error.message.startsWith('OOM ')) return overloaded('memory', error);
  if (hasTooFewReplicas(error))
    return new ServiceError('unavailable', TOO_FEW_REPLICAS, undefined, {
      overload: 'replicas',
      cause: error,
    });
  if (isPassing(error) || isReadOnly(error) || isRefused(error))
    return new ServiceError('unavailable', undefined, undefined, { cause: error });
  return error;
}

export function toStartupError(error: Error): StartupError {
  if (error instanceof StartupError) return error;
  const message = error.message.replace(/\.$/, '');
  if (isPassing(error)) return new AwayError(`Redis does not answer: ${message}.`);
  const words = inWords(error).replace(/^./s, (letter) => letter.toUpperCase());
  // Redis's message may be shown, because a start sends no visitors' data. It helps: NOPERM names the command or key.
  const detail = words === message || certificateFault(error) !== undefined ? '' : ` (${message})`;
  return isRefused(error) && !isForbidden(error)
    ? new AwayError(`${words}${detail}.`)
    : new StartupError(`${words}${detail}.`);
}

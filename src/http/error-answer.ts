// A ServiceError as the contract's answer.

import { ERRORS, type Issue, type ServiceError } from '../errors.js';
import type { Answer } from './operation.js';

/** Seconds. Right for a rate limit, too: its window is as long. */
const RETRY_AFTER_S = '1';

const REASONS: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** @param allow methods that the path takes, for `method_not_allowed` */
export function errorAnswer({ code, message, issues }: ServiceError, allow: string | undefined): Answer {
  const { status, retryable } = ERRORS[code];
  const headers: Record<string, string> = {};
  if (retryable) headers['retry-after'] = RETRY_AFTER_S;
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (allow !== undefined) headers['allow'] = allow;
  const body: { error: string; code: string; issues?: readonly Issue[] } = { error: message, code };
  if (issues !== undefined) body.issues = issues;
  return { status: `${status} ${REASONS[status]}`, headers, body: JSON.stringify(body) };
}

// A ServiceError as the contract's answer.

import { STATUS_CODES } from 'node:http';
import { ERRORS, type Issue, type ServiceError } from '../errors.js';
import type { Answer } from './operation.js';

/** @param allow methods that the path takes, for `method_not_allowed` */
export function errorAnswer(
  { code, message, issues, retryAfterS }: ServiceError,
  allow: string | undefined,
): Answer {
  const { status, retryable } = ERRORS[code];
  const headers: Record<string, string> = {};
  if (retryable) headers['retry-after'] = String(retryAfterS);
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (allow !== undefined) headers['allow'] = allow;
  const body: { error: string; code: string; issues?: readonly Issue[] } = { error: message, code };
  if (issues !== undefined) body.issues = issues;
  return { status: `${status} ${STATUS_CODES[status]}`, headers, body: JSON.stringify(body) };
}

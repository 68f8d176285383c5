// The Idempotency-Key header. Writes take one, except PATCH. Webhooks and batches ignore it, because senders add one
// without asking; reads and PATCH refuse it: their callers expect an effect that it doesn't have.

import { hash } from 'node:crypto';
import type { Issue } from '../errors.js';
import { fitsBytes, type Identity } from '../identity-rules.js';
import type { KeyedOperation, RequestStore } from '../redis/requests.js';
import type { Operation, Request } from './operation.js';

export const IDEMPOTENCY_KEY = 'idempotency-key';
const MAX_BYTES = 255;
/** Base64url digits: 66 bits. */
const FINGERPRINT_DIGITS = 11;

/** The operation of an erasure, which also works if Redis has reached `maxmemory`. */
export const ERASURE = 'erase';

interface Fingerprint {
  readonly operation: string;
  readonly input: unknown;
  /** The profile that the first try changes. It is recorded, so that a retry finds it. */
  readonly location?: () => string;
}

export function hasKey(request: Request): boolean {
  return request.header(IDEMPOTENCY_KEY) !== '' || request.hasEmptyHeader(IDEMPOTENCY_KEY);
}

export type KeyUse = 'taken' | 'ignored' | 'refused';

export function keyUseOf({ accessGroup, headers, ignoresKey }: Operation): KeyUse {
  if (headers?.includes(IDEMPOTENCY_KEY)) return 'taken';
  return accessGroup === 'delivery' || ignoresKey ? 'ignored' : 'refused';
}

export function keyFault(use: KeyUse | undefined, request: Request): Issue | undefined {
  if (use === 'ignored' || !hasKey(request)) return undefined;
  const key = request.header(IDEMPOTENCY_KEY);
  if (use === 'taken' && key !== '' && fitsBytes(key, MAX_BYTES)) return undefined;
  const message = use === 'taken' ? `must have 1 to ${MAX_BYTES} bytes` : 'is not for this operation';
  return { in: 'header', path: 'Idempotency-Key', message };
}

export async function once(
  requests: RequestStore,
  request: Request,
  fingerprint: Fingerprint,
  act: (operation?: KeyedOperation) => Promise<string>,
): Promise<string> {
  return hasKey(request) ? onceUnderKey(requests, request, fingerprint, act) : act();
}

export async function onceUnderKey(
  requests: RequestStore,
  request: Request,
  { operation, input, location }: Fingerprint,
  act: (operation: KeyedOperation) => Promise<string>,
): Promise<string> {
  const key = request.header(IDEMPOTENCY_KEY);
  const { kind, account } = request.caller;
  // A session comes before a customer in the scope, so that a login doesn't change it.
  const scope = kind === 'server' ? `server ${account}` : `visitor ${visitorIn(request.identity)}`;
  const customer = kind === 'server' ? null : request.identity.customerId;
  const fingerprint = hash('sha256', `${operation}\n${JSON.stringify(input)}`, 'base64url').slice(
    0,
    FINGERPRINT_DIGITS,
  );
  const isErasure = operation === ERASURE;
  return requests.run({ scope, key, fingerprint, customer, isErasure }, location?.() ?? '', act);
}

function visitorIn({ customerId, sessionId }: Identity): string {
  return sessionId === null ? `customer ${customerId}` : `session ${sessionId}`;
}

// The Idempotency-Key header, for all writes except webhooks, batches and PATCH /receivers/{id}.

import { hash } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { fitsBytes, type Identity } from '../identity-rules.js';
import type { KeyedOperation, RequestStore } from '../redis/requests.js';
import type { Request } from './operation.js';

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
  if (key === '' || !fitsBytes(key, MAX_BYTES)) {
    throw new ServiceError('invalid_request', undefined, [
      { path: 'Idempotency-Key', message: `must have 1 to ${MAX_BYTES} bytes` },
    ]);
  }
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

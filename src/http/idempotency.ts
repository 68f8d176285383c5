// The Idempotency-Key header, which every POST, PUT and DELETE takes, but webhooks and batches.

import { hash } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { fitsBytes, type Identity } from '../identity-rules.js';
import type { KeyedOperation, RequestStore } from '../redis/requests.js';
import type { Request } from './operation.js';

export const IDEMPOTENCY_KEY = 'idempotency-key';
const MAX_BYTES = 255;

/** The operation that also goes on at Redis's `maxmemory`. */
export const ERASURE = 'erase';

/** What makes a request the same request, under the same key. */
interface Fingerprint {
  /** Name of the operation. */
  readonly operation: string;
  /** The body as it was sent, checked and normalised. */
  readonly input: unknown;
  /** Returns the profile that will be changed, as far as is known: only for an operation that leaves its record there. */
  readonly place?: () => string;
}

/** Whether a key was sent, be it an empty one. */
export function hasKey(request: Request): boolean {
  return request.header(IDEMPOTENCY_KEY) !== '' || request.hasEmptyHeader(IDEMPOTENCY_KEY);
}

/** Acts each time without a key, and once for each key. @param act called with the operation, if there is a key */
export async function once(
  requests: RequestStore,
  request: Request,
  fingerprint: Fingerprint,
  act: (operation?: KeyedOperation) => Promise<string>,
): Promise<string> {
  return hasKey(request) ? onceUnderKey(requests, request, fingerprint, act) : act();
}

/** Acts once for each key. @param request with a key */
export async function onceUnderKey(
  requests: RequestStore,
  request: Request,
  { operation, input, place }: Fingerprint,
  act: (operation: KeyedOperation) => Promise<string>,
): Promise<string> {
  const key = request.header(IDEMPOTENCY_KEY);
  if (key === '' || !fitsBytes(key, MAX_BYTES)) {
    throw new ServiceError('invalid_request', undefined, [
      { path: 'Idempotency-Key', message: `must have 1 to ${MAX_BYTES} bytes` },
    ]);
  }
  const { kind, account } = request.caller;
  // Each secret key has keys of its own, and each visitor of any other caller. A visitor who logs in keeps its session.
  const scope = kind === 'server' ? `server ${account}` : `visitor ${visitorIn(request.identity)}`;
  const customer = kind === 'server' ? null : request.identity.customerId;
  const fingerprint = hash('sha256', `${operation}\n${JSON.stringify(input)}`, 'base64url');
  const isErasure = operation === ERASURE;
  return requests.run({ scope, key, fingerprint, customer, isErasure }, place?.() ?? '', act);
}

function visitorIn({ customerId, sessionId }: Identity): string {
  return sessionId === null ? `customer ${customerId}` : `session ${sessionId}`;
}

// The Idempotency-Key header, for operations that honour it.

import { ServiceError } from '../errors.js';
import { fitsBytes, type Identity } from '../identity/rules.js';
import type { Once, Operation as OnceOperation } from '../redis/once.js';
import type { Request } from './operation.js';

export const IDEMPOTENCY_KEY = 'idempotency-key';
const MAX_BYTES = 255;

/**
 * Does what is asked, once for each key, or straight away where none was sent.
 * @param act with the operation under its key; undefined where there is no key
 */
export function once<Input extends { readonly identity: Identity }>(
  records: Once,
  operation: string,
  request: Request,
  input: Input,
  act: (input: Input, operation?: OnceOperation<Input>) => Promise<string>,
): Promise<string> {
  const key = request.header(IDEMPOTENCY_KEY);
  if (key === '') return act(input);
  if (!fitsBytes(key, MAX_BYTES)) {
    throw new ServiceError('invalid_request', undefined, [
      { path: 'Idempotency-Key', message: `must have at most ${MAX_BYTES} bytes` },
    ]);
  }
  const { kind } = request.caller;
  // Strangers choose their keys independently: each visitor has its own, or one could read another's answer.
  const scope = request.caller.mayLink
    ? kind
    : `${kind} ${input.identity.sessionId} ${input.identity.customerId}`;
  return records.run(`${operation} ${scope}`, key, input, (found) => act(found.request, found));
}

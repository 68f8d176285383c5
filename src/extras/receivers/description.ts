// Describes a receiver to callers, with its secret only if that is new.

import type { Receiver } from './receiver.js';
import type { Stand } from './stand.js';

export function describeReceiver(receiver: Receiver, stand: Stand, isSecretNew: boolean): object {
  const { id, url, types, includePersonal, isEnabled, createdAt, secret } = receiver;
  return {
    ...{ id, url, types, includePersonal, isEnabled, createdAt },
    pending: stand.pending,
    lastSuccessAt: timeOf(stand.lastSuccessAt),
    lastFailureAt: timeOf(stand.lastFailureAt),
    lastError: stand.lastError || null,
    ...(isSecretNew ? { secret } : {}),
  };
}

function timeOf(at: number): string | null {
  return at === 0 ? null : new Date(at).toISOString();
}

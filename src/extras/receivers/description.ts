// Describes a receiver to callers, with its secret only if that is new.

import type { QueueStatus } from './queue-status.js';
import type { Receiver } from './receiver.js';

export function describeReceiver(receiver: Receiver, status: QueueStatus, isSecretNew: boolean): object {
  const { id, url, types, includePersonal, isEnabled, createdAt, secret } = receiver;
  return {
    ...{ id, url, types, includePersonal, isEnabled, createdAt },
    pending: status.pending,
    lastSuccessAt: timeOf(status.lastSuccessAt),
    lastFailureAt: timeOf(status.lastFailureAt),
    lastError: status.lastError || null,
    ...(isSecretNew ? { secret } : {}),
  };
}

function timeOf(at: number): string | null {
  return at === 0 ? null : new Date(at).toISOString();
}

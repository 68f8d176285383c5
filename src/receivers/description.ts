// A receiver as callers see it: without its secret, but where that was just made.

import type { Stand } from './queue.js';
import type { Receiver } from './receiver.js';

/** @param stand undefined where it is new @param secret only where it was just made */
export function describeReceiver(receiver: Receiver, stand: Stand | undefined, secret?: string): object {
  const { id, url, types, includePersonal, isEnabled, createdAt } = receiver;
  return {
    ...{ id, url, types, includePersonal, isEnabled, createdAt },
    pending: stand?.pending ?? 0,
    lastSuccessAt: timeOf(stand?.lastSuccessAt),
    lastFailureAt: timeOf(stand?.lastFailureAt),
    lastError: stand?.lastError || null,
    ...(secret === undefined ? {} : { secret }),
  };
}

function timeOf(at = 0): string | null {
  return at === 0 ? null : new Date(at).toISOString();
}

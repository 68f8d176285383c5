// The keys of receivers. Each has one queue, whose keys share a hash tag.

import type { Keys } from '../../redis/keys.js';

export function receiverKeys({ prefix }: Pick<Keys, 'prefix'>) {
  return {
    /** hash: id -> receiver, JSON */
    receivers: `${prefix}receivers`,
    /** `queue`: stream; `due`: see lua/extras/receivers/addDeliveries.lua; `state`: hash of pending bytes, stats */
    deliveries: (receiver: string) => {
      const keyOf = (kind: string) => `${prefix}{receiver:${receiver}}:${kind}`;
      return { queue: keyOf('queue'), due: keyOf('due'), state: keyOf('state') };
    },
  };
}

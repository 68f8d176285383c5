// Says if a Redis drops keys at `maxmemory`: in the log at the start, and in a metric at each scrape.

import type { Logger } from 'pino';
import { Gauge, type Registry } from 'prom-client';
import { evictionPolicies } from '../redis/eviction.js';
import type { Store } from '../redis/store.js';

export async function warnOfEviction({ client, timeoutMs }: Store, log: Logger): Promise<void> {
  for (const { master, policy } of await evictionPolicies(client, timeoutMs))
    if (policy !== 'noeviction')
      log.warn(
        { master, policy },
        'at its maxmemory this Redis drops wishlists: set maxmemory-policy noeviction',
      );
}

export function evictionMetrics(registry: Registry, { client, timeoutMs }: Store): () => Promise<void> {
  const masters = new Gauge({
    name: 'wishmeter_redis_eviction_policy',
    help: 'Masters by `maxmemory-policy`, if they show it: any but `noeviction` drops wishlists at maxmemory',
    registers: [registry],
    labelNames: ['policy'] as const,
  });
  return async () => {
    const policies = await evictionPolicies(client, timeoutMs);
    masters.reset();
    for (const { policy } of policies) masters.inc({ policy });
  };
}

// How a master makes room at `maxmemory`. Any policy but `noeviction` drops acknowledged wishlists while all seems well.
// INFO shows it to users that may not CONFIG GET.

import { mastersOf, type RedisClient } from './client.js';
import { before } from './deadline.js';

export interface EvictionPolicy {
  readonly master: string;
  readonly policy: string;
}

/** Leaves out masters that don't answer, or don't show it. */
export async function evictionPolicies(client: RedisClient, timeoutMs: number): Promise<EvictionPolicy[]> {
  const deadline = performance.now() + timeoutMs;
  const asked = await Promise.allSettled(
    mastersOf(client).map(async (node) => ({
      master: `${node.options.host}:${node.options.port}`,
      policy: /^maxmemory_policy:(\S+)/m.exec(await before(deadline, node.info('memory')))?.[1],
    })),
  );
  return asked.flatMap((one) =>
    one.status === 'fulfilled' && one.value.policy ? [one.value as EvictionPolicy] : [],
  );
}

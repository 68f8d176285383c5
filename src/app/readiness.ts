// Decides whether this `serve` is ready for requests: it is, if any master answers. Otherwise the outage of one master
// would take down all processes.

import type { Readiness } from '../http/operating.js';
import type { MasterState } from '../redis/health.js';

export function readinessOf(masters: readonly MasterState[]): Readiness {
  const [first] = masters;
  if (masters.every(({ state }) => state === 'away'))
    return { why: first?.reason ?? 'Redis does not answer' };
  const counts = new Map<string, number>();
  for (const { reason } of masters)
    if (reason !== undefined) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const of = masters.length === 1 ? () => '' : (count: number) => `${count} of ${masters.length} masters: `;
  return { troubles: [...counts].map(([reason, count]) => `${of(count)}${reason}`) };
}

// What Redis's clock says, told by ours. Batches carry their deadline in Redis's time, so that one that
// reaches a frozen server after its sender gave up does nothing. Ours is the monotonic clock: a jump of
// the wall clock on either machine only means measuring again.

import type { Cluster, Redis } from 'ioredis';
import type { RedisClient } from './client.js';

export class RedisClock {
  #offset = 0;

  /** Milliseconds of Redis's clock at a time of ours (`performance.now()`). */
  at(time: number): number {
    return time + this.#offset;
  }

  /** Asks Redis for its time; the answer's age, half a round trip, is well below any deadline. @throws where nobody answers */
  async measure(client: RedisClient): Promise<void> {
    const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
    // Of a cluster's clocks the latest counts: a deadline may come late at some node, but at none too early.
    // A node that does not answer now has no say: that it disagrees is found when it is met (EXPIRED).
    const settled = await Promise.allSettled(nodes.map(offsetOf));
    const offsets = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    if (offsets.length > 0) this.#offset = Math.max(...offsets);
    else
      throw (
        settled.find((one) => one.status === 'rejected')?.reason ?? new Error('no node to ask for its time')
      );
  }
}

async function offsetOf(node: Redis): Promise<number> {
  const before = performance.now();
  const [seconds, micros] = (await node.time()) as [number | string, number | string];
  const between = (before + performance.now()) / 2;
  return Number(seconds) * 1000 + Number(micros) / 1000 - between;
}

// The streams of events in `serve`'s figures, read from Redis when Prometheus asks.

import { Gauge, type Registry } from 'prom-client';
import type { Backlog } from '../flush/backlog.js';

export class BacklogMetrics {
  readonly #read: () => Promise<readonly Backlog[]>;
  readonly #ping: () => Promise<void>;
  readonly #redisUp: Gauge;
  readonly #shard: Readonly<
    Record<'events' | 'bytes' | 'oldest' | 'dead' | 'epoch' | 'silent', Gauge<'shard'>>
  >;

  /**
   * @param highWater bytes of a stream at which events are refused
   * @param read by number of the shard; throws where Redis does not answer
   * @param ping throws where Redis does not take writes
   */
  constructor(
    registry: Registry,
    highWater: number,
    read: () => Promise<readonly Backlog[]>,
    ping: () => Promise<void>,
  ) {
    this.#read = read;
    this.#ping = ping;
    const registers = [registry];
    const gauge = (name: string, help: string) =>
      new Gauge({ name: `wishmeter_stream_${name}`, help, registers, labelNames: ['shard'] as const });
    this.#redisUp = new Gauge({
      name: 'wishmeter_redis_up',
      help: 'Whether every master of Redis took a write when this was asked for',
      registers,
    });
    this.#shard = {
      events: gauge('pending_events', 'Events waiting in Redis for ClickHouse'),
      bytes: gauge('pending_bytes', 'Bytes of events waiting in Redis for ClickHouse'),
      oldest: gauge('oldest_pending_seconds', 'Age of the oldest event waiting in Redis: the lag of flush'),
      dead: gauge('dead_letters', 'Events that ClickHouse refused, kept in Redis'),
      epoch: gauge('epoch', 'Fencing epoch: rises when another flush takes the shard over'),
      silent: gauge(
        'owner_silent_seconds',
        "Since the heartbeat of the shard's flush; absent where it has none",
      ),
    };
    new Gauge({
      name: 'wishmeter_stream_high_water_bytes',
      help: 'STREAM_HIGH_WATER: pending bytes of one stream at which events get 503',
      registers,
    }).set(highWater);
  }

  /** Where Redis does not answer, nothing is shown rather than what was. */
  async refresh(): Promise<void> {
    const [backlogs, isUp] = await Promise.all([
      this.#read().catch(() => undefined),
      this.#ping().then(
        () => true,
        () => false,
      ),
    ]);
    // In one go: somebody else may be reading what was shown before.
    for (const gauge of Object.values(this.#shard)) gauge.reset();
    for (const [shard, backlog] of (backlogs ?? []).entries()) this.#show(String(shard), backlog);
    this.#redisUp.set(isUp ? 1 : 0);
  }

  #show(shard: string, { events, bytes, oldestMs, deadLetters, epoch, silentMs }: Backlog): void {
    this.#shard.events.set({ shard }, events);
    this.#shard.bytes.set({ shard }, bytes);
    this.#shard.oldest.set({ shard }, oldestMs / 1000);
    this.#shard.dead.set({ shard }, deadLetters);
    this.#shard.epoch.set({ shard }, epoch);
    if (silentMs !== undefined) this.#shard.silent.set({ shard }, silentMs / 1000);
  }
}

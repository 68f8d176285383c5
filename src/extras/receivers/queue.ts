// The delivery queue of one receiver: events in the order they came, when each is due, and stats. Scripts are atomic.

import type { Erasures } from '../../clickhouse/erased-rows.js';
import { isErased } from '../../flush/erasures.js';
import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { loadScript, runScript } from '../../redis/scripts.js';
import { receiverKeys } from './keys.js';

const ADD = loadScript<number>('extras/receivers/addDeliveries');
const TAKE = loadScript<[id: string, attempts: number, line: string][]>('extras/receivers/takeDeliveries');
const RESOLVE = loadScript<number>('extras/receivers/resolveDelivery');

const PAGE = 100;
/** Lines and characters per script call, which blocks Redis for a few milliseconds. */
const ADD_PER_CALL = 500;
const ADD_SIZE = 256 * 1024;
/** Counts are kept by steps of five minutes: an hour is twelve, plus the current one. */
const STEP_MS = 5 * 60_000;
const STEPS = 13;

export interface Taken {
  readonly id: string;
  readonly attempts: number;
  readonly line: string;
}

export interface Resolution {
  /** `drop` means that the visitor was erased. */
  readonly outcome: 'done' | 'retry' | 'dead' | 'drop';
  readonly attempts?: number;
  readonly retryInMs?: number;
  readonly why?: string;
}

export type QueueStatus = Awaited<ReturnType<DeliveryQueue['status']>>;

/** Methods throw Redis's errors. */
export class DeliveryQueue {
  readonly #keys: ReturnType<ReturnType<typeof receiverKeys>['deliveries']>;

  constructor(
    private readonly redis: RedisClient,
    private readonly keys: Keys,
    private readonly receiver: string,
    readonly highWater: number,
  ) {
    this.#keys = receiverKeys(keys).deliveries(receiver);
  }

  /** @returns how many pending deliveries became dead letters */
  async add(lines: readonly string[]): Promise<number> {
    const { queue, due, state } = this.#keys;
    let dead = 0;
    for (let from = 0, to = 0; from < lines.length; from = to) {
      for (let size = 0; to < lines.length && to - from < ADD_PER_CALL && size < ADD_SIZE; to++)
        size += (lines[to] as string).length;
      const args = [this.highWater, ...lines.slice(from, to)];
      dead += await runScript(this.redis, ADD, [queue, due, state], args);
    }
    // A concurrent removal of the receiver may have missed these lines.
    if ((await this.redis.hexists(receiverKeys(this.keys).receivers, this.receiver)) === 0)
      await this.clear();
    return dead;
  }

  async take(count: number, leaseMs: number): Promise<Taken[]> {
    const { queue, due } = this.#keys;
    const taken = await runScript(this.redis, TAKE, [queue, due], [count, leaseMs]);
    return taken.map(([id, attempts, line]) => ({ id, attempts, line }));
  }

  /** See lua/extras/receivers/resolveDelivery.lua. */
  resolve(id: string, { outcome, attempts = 0, retryInMs = 0, why = '' }: Resolution): Promise<number> {
    const { queue, due, state } = this.#keys;
    const args = [id, outcome, attempts, Math.round(retryInMs), why];
    return runScript(this.redis, RESOLVE, [queue, due, state], args);
  }

  async status() {
    const { queue, due, state } = this.#keys;
    const [pending, stats, [, firstDue]] = await Promise.all([
      this.redis.xlen(queue),
      this.redis.hgetall(state),
      this.redis.zrange(due, '0', '0', 'WITHSCORES'),
    ]);
    const number = (name: string) => Number(stats[name] ?? 0);
    const dueAt = firstDue === undefined ? Infinity : Math.floor(Number(firstDue) / 16);
    return {
      pending,
      bytes: number('bytes'),
      delivered: number('delivered'),
      failures: number('failures'),
      dead: number('dead'),
      /** In the last 60 to 65 minutes. */
      inHour: countsOfHour(stats),
      /** Milliseconds since 1970, or 0 for never. */
      lastSuccessAt: number('lastSuccessAt'),
      lastFailureAt: number('lastFailureAt'),
      lastError: stats['lastError'] ?? '',
      /** How late the oldest due delivery is; 0 if none is due. */
      lateMs: Math.max(0, Date.now() - dueAt),
    };
  }

  async forgive(): Promise<void> {
    await this.redis.hdel(this.#keys.state, 'failingSince');
  }

  async clear(): Promise<void> {
    await this.redis.unlink(...Object.values(this.#keys));
  }

  async erase(erased: Erasures): Promise<void> {
    for (let from = '-'; ; ) {
      const page = await this.redis.xrange(this.#keys.queue, from, '+', 'COUNT', PAGE);
      for (const [id, [, line = '']] of page)
        if (isErased(line, erased)) await this.resolve(id, { outcome: 'drop' });
      if (page.length < PAGE) return;
      from = `(${page.at(-1)?.[0]}`;
    }
  }
}

/** See lua/extras/receivers/resolveDelivery.lua. */
function countsOfHour(stats: Readonly<Record<string, string>>) {
  const oldest = Math.floor(Date.now() / STEP_MS) - STEPS + 1;
  const counts = { delivered: 0, failures: 0 };
  for (let i = 0; i < STEPS; i++) {
    const [step = 0, delivered = 0, failures = 0] = (stats[`recent${i}`] ?? '').split(' ').map(Number);
    if (step < oldest) continue;
    counts.delivered += delivered;
    counts.failures += failures;
  }
  return counts;
}

// The delivery queue of one receiver: events in the order they came, when each is due, and stats. Scripts are atomic.

import type { ErasedUntil } from '../../clickhouse/erased-rows.js';
import { isErased } from '../../flush/erasures.js';
import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { loadScript, runScript } from '../../redis/scripts.js';
import { type QueueStatus, statusOf } from './queue-status.js';

const ADD = loadScript<number>('extras/receivers/addDeliveries');
const TAKE = loadScript<(string | number)[]>('extras/receivers/takeDeliveries');
const RESOLVE = loadScript<number>('extras/receivers/resolveDelivery');

const PAGE = 100;
/** Lines per script call; 500 block Redis for a few milliseconds. */
const ADD_PER_CALL = 500;

export interface Taken {
  readonly id: string;
  readonly attempts: number;
  readonly line: string;
}

export interface Resolution {
  /** `drop` if the visitor was erased. */
  readonly outcome: 'done' | 'retry' | 'dead' | 'drop';
  readonly attempts?: number;
  readonly retryInMs?: number;
  readonly why?: string;
}

/** Methods throw Redis's errors. */
export class DeliveryQueue {
  readonly #redis: RedisClient;
  readonly #keys: ReturnType<Keys['deliveries']>;
  readonly #exists: () => Promise<number>;
  /** Maximum bytes of pending deliveries. */
  readonly highWater: number;

  constructor(redis: RedisClient, keys: Keys, receiver: string, highWater: number) {
    this.#redis = redis;
    this.#keys = keys.deliveries(receiver);
    this.#exists = () => redis.hexists(keys.receivers, receiver);
    this.highWater = highWater;
  }

  /** @returns how many pending deliveries became dead letters */
  async add(lines: readonly string[]): Promise<number> {
    const { queue, due, state } = this.#keys;
    let dead = 0;
    for (let i = 0; i < lines.length; i += ADD_PER_CALL) {
      const args = [this.highWater, ...lines.slice(i, i + ADD_PER_CALL)];
      dead += await runScript(this.#redis, ADD, [queue, due, state], args);
    }
    // A concurrent removal of the receiver may have missed these lines.
    if ((await this.#exists()) === 0) await this.clear();
    return dead;
  }

  async take(count: number, leaseMs: number): Promise<Taken[]> {
    const { queue, due } = this.#keys;
    const flat = await runScript(this.#redis, TAKE, [queue, due], [count, leaseMs]);
    const found: Taken[] = [];
    for (let i = 0; i < flat.length; i += 3)
      found.push({ id: String(flat[i]), attempts: Number(flat[i + 1]), line: String(flat[i + 2]) });
    return found;
  }

  /** @returns since when every attempt has failed, in milliseconds since 1970; 0 if the last attempt succeeded */
  resolve(id: string, { outcome, attempts = 0, retryInMs = 0, why = '' }: Resolution): Promise<number> {
    const { queue, due, state } = this.#keys;
    const args = [id, outcome, attempts, Math.round(retryInMs), why];
    return runScript(this.#redis, RESOLVE, [queue, due, state], args);
  }

  async status(): Promise<QueueStatus> {
    const { queue, due, state } = this.#keys;
    const [pending, stats, [, first]] = await Promise.all([
      this.#redis.xlen(queue),
      this.#redis.hgetall(state),
      this.#redis.zrange(due, '0', '0', 'WITHSCORES'),
    ]);
    return statusOf(stats, pending, first);
  }

  async forgive(): Promise<void> {
    await this.#redis.hdel(this.#keys.state, 'failingSince');
  }

  async clear(): Promise<void> {
    await this.#redis.unlink(...Object.values(this.#keys));
  }

  async erase(erased: ErasedUntil): Promise<void> {
    for (let from = '-'; ; ) {
      const page = await this.#redis.xrange(this.#keys.queue, from, '+', 'COUNT', PAGE);
      for (const [id, [, line = '']] of page)
        if (isErased(line, erased)) await this.resolve(id, { outcome: 'drop' });
      if (page.length < PAGE) return;
      from = `(${page.at(-1)?.[0]}`;
    }
  }
}

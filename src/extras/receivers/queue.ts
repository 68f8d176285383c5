// The queue of one receiver at one stream of events. Any process may use it: its scripts are atomic.

import type { ErasedUntil } from '../../clickhouse/erased-rows.js';
import { isErased } from '../../flush/erasures.js';
import type { RedisClient } from '../../redis/client.js';
import type { DeliveryKeys, Keys } from '../../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../../redis/scripts.js';
import type { QueueState } from './stand.js';

const ADD = loadScript<number>('extras/receivers/addDeliveries');
const TAKE = loadScript<(string | number)[]>('extras/receivers/takeDeliveries');
const SETTLE = loadScript<number>('extras/receivers/resolveDeliveries');

const PAGE = 100;
/** Lines added by one call, which takes Redis a few milliseconds. */
const ADD_PER_CALL = 500;

export interface Taken {
  readonly id: string;
  readonly attempts: number;
  readonly line: string;
}

/** The result of an attempt. */
export interface Settled {
  readonly id: string;
  /** `drop`: its visitor was erased; `forget`: a dead letter whose visitor was erased */
  readonly outcome: 'done' | 'again' | 'dead' | 'drop' | 'forget';
  readonly attempts?: number;
  /** Milliseconds until the retry. */
  readonly againInMs?: number;
  readonly why?: string;
}

export class DeliveryQueue {
  readonly #redis: RedisClient;
  readonly #keys: DeliveryKeys;
  readonly #exists: () => Promise<number>;
  /** Maximum bytes of pending deliveries, and of dead letters. */
  readonly highWater: number;

  constructor(
    redis: RedisClient,
    keys: Keys,
    { stream, receiver }: { readonly stream: number; readonly receiver: string },
    highWater: number,
  ) {
    this.#redis = redis;
    this.#keys = keys.deliveries(stream, receiver);
    this.#exists = () => redis.hexists(keys.receivers, receiver);
    this.highWater = highWater;
  }

  /** @returns the number of pending deliveries that became dead letters @throws Redis's errors */
  async add(lines: readonly string[]): Promise<number> {
    const { queue, taken, state, dead } = this.#keys;
    let deadLetters = 0;
    for (let i = 0; i < lines.length; i += ADD_PER_CALL) {
      const args = [this.highWater, ...lines.slice(i, i + ADD_PER_CALL)];
      deadLetters += await runScript(this.#redis, ADD, [queue, taken, state, dead], args);
    }
    // The receiver may have been removed concurrently.
    if ((await this.#exists()) === 0) await this.clear();
    return deadLetters;
  }

  /** Leases deliveries for `leaseMs`. @throws Redis's errors */
  async take(count: number, leaseMs: number): Promise<Taken[]> {
    const { queue, taken, state } = this.#keys;
    const flat = await runScript(this.#redis, TAKE, [queue, taken, state], [count, leaseMs]);
    const found: Taken[] = [];
    for (let i = 0; i < flat.length; i += 3)
      found.push({ id: String(flat[i]), attempts: Number(flat[i + 1]), line: String(flat[i + 2]) });
    return found;
  }

  /** False once the delivery has ended. @throws Redis's errors */
  async holds(id: string): Promise<boolean> {
    return (await this.#redis.xrange(this.#keys.queue, id, id)).length > 0;
  }

  /**
   * Records the results of attempts.
   * @returns time since which every attempt has failed, milliseconds since 1970; 0 if the last one succeeded
   * @throws Redis's errors
   */
  settle(settled: readonly Settled[]): Promise<number> {
    const { queue, taken, state, dead } = this.#keys;
    const args: ScriptArg[] = settled.flatMap(({ id, outcome, attempts = 0, againInMs = 0, why = '' }) => [
      ...[id, outcome, attempts, Math.round(againInMs), why],
    ]);
    return runScript(this.#redis, SETTLE, [queue, taken, state, dead], [this.highWater, ...args]);
  }

  /** @throws Redis's errors */
  async state(): Promise<QueueState> {
    const { queue, taken, state } = this.#keys;
    const [pending, fields, [, again]] = await Promise.all([
      this.#redis.xlen(queue),
      this.#redis.hgetall(state),
      this.#redis.zrange(taken, '0', '0', 'WITHSCORES'),
    ]);
    const { cursor } = fields;
    const [first] = await this.#redis.xrange(queue, cursor ? `(${cursor}` : '-', '+', 'COUNT', 1);
    const addedAt = first === undefined ? Infinity : Number.parseInt(first[0], 10);
    const againAt = again === undefined ? Infinity : Math.floor(Number(again) / 16);
    return { ...fields, pending: String(pending), dueAt: String(Math.min(addedAt, againAt)) };
  }

  /** Resets the time since which attempts fail. @throws Redis's errors */
  async forgive(): Promise<void> {
    await this.#redis.hdel(this.#keys.state, 'failingSince');
  }

  /** Deletes all keys. @throws Redis's errors */
  async clear(): Promise<void> {
    await this.#redis.unlink(...Object.values(this.#keys));
  }

  /** Drops deliveries and dead letters about erased visitors. @throws Redis's errors */
  async erase(erased: ErasedUntil): Promise<void> {
    for (const [key, outcome] of [
      [this.#keys.queue, 'drop'],
      [this.#keys.dead, 'forget'],
    ] as const) {
      for (let from = '-'; ; ) {
        const page = await this.#redis.xrange(key, from, '+', 'COUNT', PAGE);
        const dropped = page
          .filter(([, [, line = '']]) => isErased(line, erased))
          .map(([id]) => ({ id, outcome }));
        if (dropped.length > 0) await this.settle(dropped);
        if (page.length < PAGE) break;
        from = `(${page.at(-1)?.[0]}`;
      }
    }
  }
}

// The delivery queue of one receiver at one stream of events. Its scripts are atomic.

import type { ErasedUntil } from '../../clickhouse/erased-rows.js';
import { isErased } from '../../flush/erasures.js';
import type { RedisClient } from '../../redis/client.js';
import type { DeliveryKeys, Keys } from '../../redis/keys.js';
import { loadScript, runScript, type ScriptArg } from '../../redis/scripts.js';
import type { QueueState } from './queue-status.js';

const ADD = loadScript<number>('extras/receivers/addDeliveries');
const TAKE = loadScript<(string | number)[]>('extras/receivers/takeDeliveries');
const SETTLE = loadScript<number>('extras/receivers/resolveDeliveries');

const PAGE = 100;
/** Lines per script call; 500 block Redis for a few milliseconds. */
const ADD_PER_CALL = 500;

export interface Taken {
  readonly id: string;
  readonly attempts: number;
  readonly line: string;
}

export interface Settled {
  readonly id: string;
  /** The visitor was erased: `drop` for a delivery, `forget` for a dead letter. */
  readonly outcome: 'done' | 'again' | 'dead' | 'drop' | 'forget';
  readonly attempts?: number;
  readonly againInMs?: number;
  readonly why?: string;
}

/** Methods throw Redis's errors. */
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

  /** @returns how many pending deliveries became dead letters */
  async add(lines: readonly string[]): Promise<number> {
    const { queue, taken, state, dead } = this.#keys;
    let deadLetters = 0;
    for (let i = 0; i < lines.length; i += ADD_PER_CALL) {
      const args = [this.highWater, ...lines.slice(i, i + ADD_PER_CALL)];
      deadLetters += await runScript(this.#redis, ADD, [queue, taken, state, dead], args);
    }
    // A concurrent removal of the receiver may have missed these lines.
    if ((await this.#exists()) === 0) await this.clear();
    return deadLetters;
  }

  async take(count: number, leaseMs: number): Promise<Taken[]> {
    const { queue, taken, state } = this.#keys;
    const flat = await runScript(this.#redis, TAKE, [queue, taken, state], [count, leaseMs]);
    const found: Taken[] = [];
    for (let i = 0; i < flat.length; i += 3)
      found.push({ id: String(flat[i]), attempts: Number(flat[i + 1]), line: String(flat[i + 2]) });
    return found;
  }

  async holds(id: string): Promise<boolean> {
    return (await this.#redis.xrange(this.#keys.queue, id, id)).length > 0;
  }

  /** @returns since when every attempt has failed, in milliseconds since 1970; 0 if the last attempt succeeded */
  settle(settled: readonly Settled[]): Promise<number> {
    const { queue, taken, state, dead } = this.#keys;
    const args: ScriptArg[] = settled.flatMap(({ id, outcome, attempts = 0, againInMs = 0, why = '' }) => [
      ...[id, outcome, attempts, Math.round(againInMs), why],
    ]);
    return runScript(this.#redis, SETTLE, [queue, taken, state, dead], [this.highWater, ...args]);
  }

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

  async forgive(): Promise<void> {
    await this.#redis.hdel(this.#keys.state, 'failingSince');
  }

  async clear(): Promise<void> {
    await this.#redis.unlink(...Object.values(this.#keys));
  }

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
